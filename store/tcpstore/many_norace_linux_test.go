//go:build !race

package tcpstore

const manyClients = 10000
