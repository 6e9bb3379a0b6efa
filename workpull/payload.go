package workpull

import (
	"fmt"
	"maps"
	"sync"
	"sync/atomic"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/workpull/operator/workpull/internal/core"
)

const typeURLPrefix = "type.googleapis.com/"

// known remembers what is the same for every message of a type. It is written
// once for each type of payload that the process has, and read for each job.
type known[K comparable, V any] struct {
	mu     sync.Mutex
	values atomic.Pointer[map[K]V]
}

func (k *known[K, V]) get(key K) (value V, ok bool) {
	if m := k.values.Load(); m != nil {
		value, ok = (*m)[key]
	}
	return value, ok
}

func (k *known[K, V]) put(key K, value V) {
	k.mu.Lock()
	defer k.mu.Unlock()
	next := map[K]V{}
	if m := k.values.Load(); m != nil {
		next = maps.Clone(*m)
	}
	next[key] = value
	k.values.Store(&next)
}

var (
	typeURLs     known[protoreflect.FullName, string]
	messageTypes known[string, protoreflect.MessageType]
)

func typeURL(name protoreflect.FullName) string {
	url, ok := typeURLs.get(name)
	if !ok {
		url = typeURLPrefix + string(name)
		typeURLs.put(name, url)
	}
	return url
}

// encodePayload takes the snapshot that the controller owns (rule 10).
func encodePayload(payload proto.Message) (core.Payload, error) {
	const name, field = "Produced", "payload"
	if payload == nil {
		return core.Payload{}, &MessageError{Message: name, Field: field, Reason: "is nil"}
	}
	reflected := payload.ProtoReflect()
	fullName := reflected.Descriptor().FullName()
	if !reflected.IsValid() {
		return core.Payload{}, &MessageError{Message: name, Field: field, Reason: "is a nil " + string(fullName)}
	}
	url := typeURL(fullName)
	size := proto.Size(payload)
	if size += len(url); size > MaxPayloadBytes {
		return core.Payload{}, &MessageError{
			Message: name, Field: field, Err: ErrPayloadTooLarge,
			Reason: fmt.Sprintf("has %d bytes encoded, wanted at most %d", size, MaxPayloadBytes),
		}
	}
	value, err := proto.Marshal(payload)
	if err != nil {
		return core.Payload{}, &MessageError{Message: name, Field: field, Reason: "cannot be encoded", Err: err}
	}
	return core.Payload{TypeURL: url, Value: value}, nil
}

// decodePayload makes a message of its own of it (rule 80).
func decodePayload(p *core.Payload) (proto.Message, error) {
	messageType, ok := messageTypes.get(p.TypeURL)
	if !ok {
		found, err := protoregistry.GlobalTypes.FindMessageByURL(p.TypeURL)
		if err != nil {
			return nil, fmt.Errorf("payload %s is of an unknown type: %w", p.TypeURL, err)
		}
		if messageType = found; p.TypeURL == typeURL(found.Descriptor().FullName()) { // others have no end
			messageTypes.put(p.TypeURL, found)
		}
	}
	message := messageType.New().Interface()
	if err := proto.Unmarshal(p.Value, message); err != nil {
		return nil, fmt.Errorf("payload %s cannot be decoded: %w", p.TypeURL, err)
	}
	return message, nil
}
