// Package producer is the stock intake: an HTTP server that takes jobs, and
// the producer endpoint that hands them to workers.
//
// Jobs are kept where the settings say. In memory, a job that was accepted
// survives the death of any worker, and not the end of this process, which
// therefore says at its start what it cannot know, and at its end how many jobs
// are lost. In a folder or in PostgreSQL it survives both, and a client is told
// that it was accepted only once it is stored.
//
// A queue that fails closes the intake and is tried again for as long as it
// takes. Where there are standbys, a Lease says which process serves, and the
// queue sees to it that no other writes (docs/decisions/006-producer-failover.md).
package producer
