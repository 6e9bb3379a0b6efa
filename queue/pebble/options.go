package pebble

import (
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/go-logr/logr"
)

// Option sets how a store is kept.
type Option func(*settings)

// settings of a store. Zero values mean the defaults.
type settings struct {
	log     logr.Logger
	cache   int64
	memory  uint64
	page    int
	reserve uint64
	// What tests put in place of the real ones.
	fs     vfs.FS
	now    func() time.Time
	format *format
}

// Defaults of the options.
const (
	// DefaultCache is how much of the tables is kept in memory, in bytes.
	DefaultCache = 64 << 20
	// DefaultMemory is how much is collected in memory before it is written to
	// a table, in bytes. Up to four times as much is used while tables are
	// written.
	DefaultMemory = 64 << 20
	// DefaultPage is how much of the payloads a Load returns, in bytes; the
	// other jobs come without (B11).
	DefaultPage = 16 << 20
	// DefaultReserve is how much has to be free on the volume for a job to be
	// stored, in bytes: room for confirmations and for Pebble's tables.
	DefaultReserve = 256 << 20
)

// WithLogger sets where the store tells that it broke, that the disk is full or
// that writes wait. Without it nothing is told but by errors.
func WithLogger(log logr.Logger) Option { return func(s *settings) { s.log = log } }

// WithCache sets how much of the tables is kept in memory, in bytes, instead of
// DefaultCache.
func WithCache(bytes int64) Option { return func(s *settings) { s.cache = bytes } }

// WithMemory sets how much is collected in memory before it is written to a
// table, in bytes, instead of DefaultMemory. Jobs that are stored and done
// within it never get to a table.
func WithMemory(bytes uint64) Option { return func(s *settings) { s.memory = bytes } }

// WithReserve sets how much has to be free on the volume for a job to be stored,
// in bytes, instead of DefaultReserve.
func WithReserve(bytes uint64) Option { return func(s *settings) { s.reserve = bytes } }

// complete puts the defaults in place.
func (s settings) complete() settings {
	if s.log.GetSink() == nil {
		s.log = logr.Discard()
	}
	if s.cache <= 0 {
		s.cache = DefaultCache
	}
	if s.memory == 0 {
		s.memory = DefaultMemory
	}
	if s.page == 0 {
		s.page = DefaultPage
	}
	if s.reserve == 0 {
		s.reserve = DefaultReserve
	}
	if s.fs == nil {
		s.fs = vfs.Default
	}
	if s.now == nil {
		s.now = time.Now
	}
	if s.format == nil {
		s.format = &current
	}
	return s
}
