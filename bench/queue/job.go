package main

import (
	crand "crypto/rand"
	"fmt"
	"math/rand/v2"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/workpull/operator/bench/internal/testbed"
	"github.com/workpull/operator/workpull"
)

// jobs makes jobs that have nothing in common, so that a store cannot compress
// them. It is for one goroutine.
type jobs struct{ noise *rand.ChaCha8 }

func newJobs() *jobs { return &jobs{rand.NewChaCha8([32]byte{})} }

// next is a job as a producer actor offers it. Its MessageID is unique in all
// runs.
func (j *jobs) next(int) (id string, payload proto.Message) {
	value := make([]byte, testbed.PayloadBytes)
	_, _ = j.noise.Read(value) // it does not fail
	return crand.Text(), wrapperspb.Bytes(value)
}

// request is a job as a queue is asked to store it.
func (j *jobs) request() (workpull.StoreRequest, error) {
	id, message := j.next(0)
	encoded, err := anypb.New(message)
	if err != nil {
		return workpull.StoreRequest{}, fmt.Errorf("encode a job: %w", err)
	}
	payload, err := workpull.NewReliablePayload(encoded.GetTypeUrl(), encoded.GetValue())
	if err != nil {
		return workpull.StoreRequest{}, err
	}
	return workpull.NewStoreRequest(id, 0, payload)
}
