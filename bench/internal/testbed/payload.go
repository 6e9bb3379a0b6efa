package testbed

import (
	"encoding/binary"
	"math/rand/v2"
	"slices"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/workpull/operator/workpull"
)

// PayloadBytes is the size of every job.
const PayloadBytes = 200

// noise is what a payload consists of: the same bytes each time, but none that
// a network would compress.
var noise = func() [PayloadBytes]byte {
	var b [PayloadBytes]byte
	_, _ = rand.NewChaCha8([32]byte{}).Read(b[:]) // it does not fail
	return b
}()

// Stamped is a payload that begins with a number.
func Stamped(number uint64) proto.Message {
	payload := slices.Clone(noise[:])
	binary.LittleEndian.PutUint64(payload, number)
	return wrapperspb.Bytes(payload)
}

// StampOf is the number with which a delivery's payload begins.
func StampOf(d *workpull.Delivery) uint64 {
	return binary.LittleEndian.Uint64(d.Payload().(*wrapperspb.BytesValue).GetValue())
}
