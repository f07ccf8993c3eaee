//go:build race

package tcpstore

// manyClients is less under the race detector, which bears no more than 8,128 goroutines.
const manyClients = 2000
