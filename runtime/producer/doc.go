// Package producer is the stock intake: an HTTP server that takes jobs, and
// the producer endpoint that hands them to workers.
//
// Jobs are kept in this process's memory. A job that was accepted survives the
// death of any worker; it does not survive the end of this process, which
// therefore says at its start what it cannot know, and at its end how many
// jobs are lost.
package producer
