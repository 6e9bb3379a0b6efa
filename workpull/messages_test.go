package workpull

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/tochemey/goakt/v3/actor"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/workpull/operator/workpull/internal/codec"
	"github.com/workpull/operator/workpull/internal/wire"
)

func TestNewProducedRefuses(t *testing.T) { // rule 10, rule 11
	request := &RequestNext{session: 1, token: 1}
	ok := wrapperspb.String("x")
	var typedNil *wrapperspb.StringValue
	for name, c := range map[string]struct {
		request *RequestNext
		id      string
		payload proto.Message
		field   string
		is      error
	}{
		"no request":          {nil, "a", ok, "request", nil},
		"a made-up request":   {&RequestNext{}, "a", ok, "request", nil},
		"a blank MessageID":   {request, " \t", ok, "messageID", nil},
		"a reserved one":      {request, ReservedIDPrefix + "1", ok, "messageID", nil},
		"a very long one":     {request, strings.Repeat("x", MaxMessageIDBytes+1), ok, "messageID", nil},
		"one that is no text": {request, "a\xff", ok, "messageID", nil},
		"a nil payload":       {request, "a", nil, "payload", nil},
		"a typed nil payload": {request, "a", typedNil, "payload", nil},
		"too large a payload": {request, "a", wrapperspb.Bytes(make([]byte, MaxPayloadBytes)), "payload", ErrPayloadTooLarge},
		"an invalid payload":  {request, "a", wrapperspb.String("\xff"), "payload", nil},
	} {
		t.Run(name, func(t *testing.T) {
			produced, err := NewProduced(c.request, c.id, c.payload)
			require.Nil(t, produced)
			require.ErrorIs(t, err, ErrInvalidMessage)
			var refused *MessageError
			require.ErrorAs(t, err, &refused)
			require.Equal(t, c.field, refused.Field)
			if c.is != nil {
				require.ErrorIs(t, err, c.is)
			}
		})
	}
}

func TestTheLargestPayloadFitsAFrame(t *testing.T) { // rule 10
	typeURL := "type.googleapis.com/google.protobuf.BytesValue"
	payload := wrapperspb.Bytes(make([]byte, MaxPayloadBytes-len(typeURL)-5))
	id := strings.Repeat("i", MaxMessageIDBytes)
	produced, err := NewProduced(&RequestNext{session: 1, token: 1}, id, payload)
	require.NoError(t, err)
	packed, err := anypb.New(&wire.Batch{Session: 1, Binding: 1, Jobs: []*wire.Job{{
		Sequence: 1 << 60, MessageId: produced.id, TypeUrl: produced.payload.TypeURL, Payload: produced.payload.Value, Attempt: 1 << 30,
	}}})
	require.NoError(t, err)
	// Sender and receiver, of at most three names of 255 bytes each, and the
	// names of GoAkt's envelope come on top.
	require.Less(t, proto.Size(packed)+2*4*256+1024, maxFrame)
}

func TestThePayloadIsASnapshot(t *testing.T) { // rule 10
	payload := wrapperspb.String("before")
	produced, err := NewProduced(&RequestNext{session: 1, token: 1}, "a", payload)
	require.NoError(t, err)
	payload.Value = "after"
	decoded := new(wrapperspb.StringValue)
	require.NoError(t, proto.Unmarshal(produced.payload.Value, decoded))
	require.Equal(t, "before", decoded.GetValue())
}

func TestAnswersNeedWhatTheyAnswer(t *testing.T) { // rule 20
	for _, f := range []func() error{
		func() error { _, err := NewStoredAck(nil); return err },
		func() error { _, err := NewStoredAck(&Stored{}); return err },
		func() error { _, err := NewConfirmed(nil); return err },
		func() error { _, err := NewConfirmed(&Delivery{}); return err },
		func() error { _, err := NewRejected(nil, "x"); return err },
		func() error { _, err := NewRejected(&Delivery{}, "x"); return err },
	} {
		require.ErrorIs(t, f(), ErrInvalidMessage)
	}
}

func TestAReasonIsCutToWhatTheWireTakes(t *testing.T) {
	d := &Delivery{sequence: 1, id: "a"}
	r, err := NewRejected(d, strings.Repeat("é", codec.MaxReason))
	require.NoError(t, err)
	require.LessOrEqual(t, len(r.Reason()), codec.MaxReason)
	_, err = proto.Marshal(&wire.Exception{Reason: r.Reason()})
	require.NoError(t, err)
}

// Dead letters and panics marshal what they hold (part 5, trap 1).
func TestEveryMessageCanBeMarshalled(t *testing.T) {
	d := &Delivery{sequence: 2, id: "a", session: 3, attempt: 1, payload: wrapperspb.String("secret")}
	confirmed, err := NewConfirmed(d)
	require.NoError(t, err)
	rejected, err := NewRejected(d, "no")
	require.NoError(t, err)
	produced, err := NewProduced(&RequestNext{session: 1, token: 1}, "a", wrapperspb.String("secret"))
	require.NoError(t, err)
	for _, m := range []proto.Message{
		&RequestNext{session: 1, token: 2}, produced, &Stored{session: 1, token: 2, id: "a"}, &StoredAck{session: 1},
		&DeliveryConfirmed{id: "a"}, d, confirmed, rejected,
		&attach{}, &respawn{}, &begin{}, &tick{}, &flush{}, &registration{}, &control{}, &registered{}, &batch{}, &acknowledged{},
		&verified{}, &probed{}, &resolved{}, &sendFailed{}, &peerLost{}, &handlerRestarted{}, &drain{}, &inspect{}, &inquire{},
		&recall{}, &late{}, &recallDue{}, &command{},
	} {
		packed, err := anypb.New(m)
		require.NoErrorf(t, err, "%T", m)
		require.NotContains(t, string(packed.GetValue()), "secret", "payloads stay out of dead letters")
		_, err = packed.UnmarshalNew()
		require.NoErrorf(t, err, "%T", m)
	}
}

func TestIsAuthorizedForTellsPartiesApart(t *testing.T) {
	self, controller, other := new(actor.PID), new(actor.PID), new(actor.PID)
	m := &Delivery{parties: parties{endpoint: self, controller: controller}}
	require.True(t, m.IsAuthorizedFor(self, controller))
	require.False(t, m.IsAuthorizedFor(other, controller))
	require.False(t, m.IsAuthorizedFor(self, other))
	require.False(t, m.IsAuthorizedFor(self, nil))
	require.False(t, new(Delivery).IsAuthorizedFor(nil, nil))
}
