package pebble

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"strconv"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// The log, as Pebble writes it: blocks of 32 KiB with chunks, each of which has a
// header of checksum (4 bytes), length (2), kind (1) and number of the log (4);
// since its format FormatWALSyncChunks, but not in the first log of a new store,
// how much was synced (8) as well.
const (
	logBlock    = 32 << 10
	plainHeader = 11
	plainFull   = 5 // a record in one chunk; then its first, middle and last one
	syncHeader  = 19
	syncFull    = 9
	kinds       = 4
)

// checkTail tells garbage in the middle of the newest log, which is loss, from
// what a crash leaves of its end, which nobody was told of. Pebble means to do
// that by what the headers say of syncs, but v2.1.7 counts only the last block
// of each sync (record.LogWriter.flushLoop), so that of a log of large batches
// it takes nearly all for its end. Here it follows from there being one writer
// that waits for each sync: where a record begins, everything before it was
// synced.
func checkTail(fs vfs.FS, dir string) error {
	names, err := fs.List(dir)
	if err != nil {
		return err
	}
	var newest uint64
	var name string
	for _, n := range names {
		digits, ok := strings.CutSuffix(n, ".log")
		if number, err := strconv.ParseUint(digits, 10, 64); ok && err == nil && number >= newest {
			newest, name = number, n
		}
	}
	if name == "" {
		return nil
	}
	f, err := fs.Open(fs.PathJoin(dir, name))
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	log := make([]byte, info.Size())
	if _, err := io.ReadFull(f, log); err != nil {
		return err
	}
	end := endOfLog(log, uint32(newest))
	if at := laterRecord(log, end, uint32(newest)); at > 0 {
		return fmt.Errorf("%w: log %s cannot be read from byte %d on, and has a record at %d", ErrCorrupt, name, end, at)
	}
	return nil
}

// endOfLog is where a log cannot be read any more.
func endOfLog(log []byte, number uint32) int {
	at := 0
	for {
		size := chunkAt(log, at, number)
		if left := logBlock - at%logBlock; size == 0 && left < syncHeader {
			size = left // no header fits, so that it is not used
		} else if size == 0 {
			return min(at, len(log))
		}
		at += size
	}
}

// laterRecord is where a record begins at or after a byte, or 0. The number of
// the log is what is looked for, since it is in each header.
func laterRecord(log []byte, from int, number uint32) int {
	pattern := binary.LittleEndian.AppendUint32(nil, number)
	for at := from; ; {
		next := bytes.Index(log[min(at, len(log)):], pattern)
		if next < 0 {
			return 0
		}
		at += next + 1
		header := at - 1 - 7
		if header >= from && chunkAt(log, header, number) > 0 && begins(log[header+6]) {
			return header
		}
	}
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// begins tells the kinds of chunks that a record begins with.
func begins(kind byte) bool {
	return kind == plainFull || kind == plainFull+1 || kind == syncFull || kind == syncFull+1
}

// chunkAt is the size of the chunk of that log at a byte, or 0 for none.
func chunkAt(log []byte, at int, number uint32) int {
	if at+plainHeader > len(log) {
		return 0
	}
	h := log[at:]
	size := int(binary.LittleEndian.Uint16(h[4:]))
	switch kind := h[6]; {
	case kind >= plainFull && kind < plainFull+kinds:
		size += plainHeader
	case kind >= syncFull && kind < syncFull+kinds:
		size += syncHeader
	default:
		return 0
	}
	if binary.LittleEndian.Uint32(h[7:]) != number || size > len(h) || at%logBlock+size > logBlock {
		return 0
	}
	sum := crc32.Checksum(h[6:size], castagnoli)
	if binary.LittleEndian.Uint32(h) != (sum>>15|sum<<17)+0xa282ead8 {
		return 0
	}
	return size
}
