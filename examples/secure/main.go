// Secure is a job whose store and links between hosts are encrypted, and whose ranks prove by certificates that they belong to it.
// The page docs/security.md says how to make the files.
//
// Each rank is started with its number, as on one host by
//
//	RANK=0 WORLD_SIZE=2 MASTER_ADDR=host0 MASTER_PORT=29500 secure -cert rank.pem -key rank.key -ca ca.pem
//
// or by a launcher that has no store of its own, such as Slurm.
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/pg"
)

func main() {
	cert := flag.String("cert", "rank.pem", "`file` with this rank's certificate")
	key := flag.String("key", "rank.key", "`file` with its key")
	ca := flag.String("ca", "ca.pem", "`file` with the certificate of the job's authority")
	name := flag.String("name", "job", "`name` that the certificates of all ranks have")
	flag.Parse()
	config, err := secured(*cert, *key, *ca, *name)
	if err != nil {
		log.Fatal(err)
	}
	if err := run(context.Background(), config); err != nil {
		log.Fatal(err)
	}
}

// secured makes a configuration for both halves of a rank: it dials some peers, and others dial it.
func secured(cert, key, ca, name string) (*tls.Config, error) {
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		return nil, err
	}
	authority, err := os.ReadFile(ca)
	if err != nil {
		return nil, err
	}
	trusted := x509.NewCertPool()
	if !trusted.AppendCertsFromPEM(authority) {
		return nil, fmt.Errorf("%s has no certificate", ca)
	}
	return &tls.Config{Certificates: []tls.Certificate{pair}, RootCAs: trusted, ClientCAs: trusted,
		ClientAuth: tls.RequireAndVerifyClientCert, ServerName: name, MinVersion: tls.VersionTLS13}, nil
}

func run(ctx context.Context, config *tls.Config) error {
	// Ranks of one host would use shared memory, which needs no encryption: the example wants to show TCP.
	g, err := pg.Init(ctx, pg.Config{TLS: config, Transport: "tcp"})
	if err != nil {
		return err
	}
	x := []float32{float32(g.Rank() + 1)}
	err = g.AllReduce(ctx, colligo.Of(x), colligo.Sum)
	if err := errors.Join(err, g.Close()); err != nil {
		return err
	}
	fmt.Printf("rank %d of %d: sum %v over TLS\n", g.Rank(), g.Size(), x[0])
	return nil
}
