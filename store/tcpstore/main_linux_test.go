package tcpstore

import (
	"os"
	"testing"

	"github.com/colligo-go/colligo/store/storetest"
)

// TestMain runs the tests, or, as a child of TestManyClients, its clients.
func TestMain(m *testing.M) {
	if len(os.Args) == 4 && os.Args[1] == idleClients {
		os.Exit(holdClients(os.Args[2], os.Args[3]))
	}
	storetest.Main(m)
}
