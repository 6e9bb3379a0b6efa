package workpull

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/workpull/operator/workpull/internal/core"
)

func specOf(t testing.TB, options ...SpawnOption) *spec {
	s := &spec{name: "e", inner: &idle{}}
	require.NoError(t, apply(s, options))
	return s
}

func everyOption(t testing.TB) []*spec {
	return []*spec{
		specOf(t, AsReliableWorkPullingProducer()),
		specOf(t, AsReliableWorkPullingProducer(
			WithReliableRetryInterval(time.Minute), WithReliableDeliveryConfirmation(), WithReliableStoreAhead(3), WithReliableCredits(4),
			WithReliableLease(time.Hour), WithReliableRetryPolicy(5, 2*time.Minute), WithReliablePackedDispatch())),
		specOf(t, AsReliableWorkPullingWorker("p")),
		specOf(t, AsReliableWorkPullingWorker("p",
			WithReliableFlowControlWindow(17), WithReliableResendInterval(time.Hour), WithReliableIdentity("i"))),
	}
}

// All of an endpoint's options come along (rule 90).
func TestASeedCarriesEveryOption(t *testing.T) {
	for _, s := range everyOption(t) {
		data, err := newSeed(s).MarshalBinary()
		require.NoError(t, err)
		var d seed
		require.NoError(t, d.UnmarshalBinary(data))
		back := &spec{name: d.Name, inner: s.inner}
		require.NoError(t, d.into(back))
		require.Equal(t, s, back)
		require.Equal(t, "github.com/workpull/operator/workpull", strings.TrimSuffix(strings.TrimPrefix(d.Kind, "*"), ".idle"))
	}
}

// Every field of a configuration is one that JSON carries: none is hidden, a
// function or an interface.
func TestConfigurationsAreValues(t *testing.T) {
	for _, c := range []reflect.Type{reflect.TypeFor[core.ProducerConfig](), reflect.TypeFor[core.ConsumerConfig]()} {
		for i := range c.NumField() {
			f := c.Field(i)
			require.True(t, f.IsExported(), "%s.%s", c, f.Name)
			require.Contains(t, []reflect.Kind{reflect.String, reflect.Bool, reflect.Int, reflect.Int64, reflect.Uint64}, f.Type.Kind(), "%s.%s", c, f.Name)
			require.Empty(t, f.Tag.Get("json"), "%s.%s", c, f.Name)
		}
	}
}

func TestSeedsThatAreRefused(t *testing.T) {
	good := func() *seed { return newSeed(everyOption(t)[3]) }
	producer := func() *seed { return newSeed(everyOption(t)[1]) }
	change := func(d *seed, f func(d *seed)) []byte {
		f(d)
		data, err := json.Marshal(d)
		require.NoError(t, err)
		return data
	}
	for name, data := range map[string][]byte{
		"nothing":           nil,
		"no object":         []byte(`[]`),
		"null":              []byte(`null`),
		"another version":   change(good(), func(d *seed) { d.Version = 2 }),
		"an unknown field":  []byte(`{"version":1,"name":"e","kind":"k","follows":"p","sudo":true}`),
		"two at once":       append(change(good(), func(*seed) {}), '{', '}'),
		"no name":           change(good(), func(d *seed) { d.Name = "" }),
		"no kind":           change(good(), func(d *seed) { d.Kind = "" }),
		"no role":           change(good(), func(d *seed) { d.Consumer = nil }),
		"both roles":        change(good(), func(d *seed) { d.Producer = producer().Producer }),
		"nobody to follow":  change(good(), func(d *seed) { d.Follows = "" }),
		"window":            change(good(), func(d *seed) { d.Consumer.Window = core.MaxWindow + 1 }),
		"resend interval":   change(good(), func(d *seed) { d.Consumer.ResendInterval = 0 }),
		"another's actor":   change(good(), func(d *seed) { d.Consumer.Actor = "a" }),
		"retry interval":    change(producer(), func(d *seed) { d.Producer.RetryInterval = -1 }),
		"lease":             change(producer(), func(d *seed) { d.Producer.Lease = 1 }),
		"store-ahead":       change(producer(), func(d *seed) { d.Producer.StoreAhead = -1 }),
		"a producer's name": change(producer(), func(d *seed) { d.Producer.Name = "x" }),
		"too long":          change(good(), func(d *seed) { d.Name = strings.Repeat("x", maxSeed) }),
	} {
		t.Run(name, func(t *testing.T) {
			before := seed{Name: "untouched"}
			d := before
			require.ErrorIs(t, d.UnmarshalBinary(data), errSeed)
			require.Equal(t, before, d)
		})
	}
	_, err := (&seed{Name: strings.Repeat("x", maxSeed)}).MarshalBinary()
	require.ErrorIs(t, err, errSeed)
}

// Bytes from another node never make a spec that Spawn would have refused.
func FuzzSeed(f *testing.F) {
	for _, s := range everyOption(f) {
		data, err := newSeed(s).MarshalBinary()
		require.NoError(f, err)
		f.Add(data)
	}
	f.Add([]byte(`{"version":1,"name":"e","kind":"k","producer":{}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var d seed
		if d.UnmarshalBinary(data) != nil {
			require.Equal(t, seed{}, d)
			return
		}
		again, err := d.MarshalBinary()
		require.NoError(t, err)
		var same seed
		require.NoError(t, same.UnmarshalBinary(again))
		require.Equal(t, d, same)
		s := &spec{}
		_ = d.into(s)
		require.True(t, s.role == producerRole || s.role == workerRole && s.consumer.Window <= core.MaxWindow && s.follows != "")
	})
}
