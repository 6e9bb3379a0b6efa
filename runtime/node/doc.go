// Package node is what every process in a pod shares, whatever its role: the
// settings, the actor system with its remoting and, for members, its cluster,
// the connection that tells of a worker's death, and the health server.
//
// A node is a member of the producer's GoAkt cluster (producers, and workers
// of pools with membership Member) or attached to it: a system with remoting
// alone, which holds no part of the cluster's registry.
package node
