package postgres_test

import (
	"fmt"
	"os"
	"sync/atomic"
	"testing"

	"github.com/workpull/operator/internal/pgtest"
	"github.com/workpull/operator/queue/postgres"
	"github.com/workpull/operator/queue/queuetest"
	"github.com/workpull/operator/workpull"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }

// TestQueue: the queue is one as the contract wants it (rules 64-72, B1, B3,
// B8, B9, B11, B16). Each store of the suite is a flow of one database.
func TestQueue(t *testing.T) {
	url := pgtest.Shared(t).Database(t)
	keep := postgres.New(url, "keeps the connections open")
	defer keep.Close()
	if _, _, err := keep.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	var flows atomic.Int64
	queuetest.Run(t, func(*testing.T) queuetest.Open {
		flow := fmt.Sprint("flow ", flows.Add(1))
		return func(*testing.T) workpull.DurableWorkQueue { return postgres.New(url, flow) }
	})
}
