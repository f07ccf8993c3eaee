package main

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/colligo-go/colligo/internal/freeport"
)

// byEnvironment names the variable that has a rank of a test take its files from the environment.
const byEnvironment = "SECURE_TEST_ENVIRONMENT"

// TestMain runs the tests, or, as a rank that they start, the program itself.
func TestMain(m *testing.M) {
	if _, child := os.LookupEnv("RANK"); child {
		if os.Getenv(byEnvironment) == "" {
			main()
			return
		}
		if err := run(context.Background(), nil); err != nil { // what COLLIGO_TLS_CERT and its like say
			fmt.Println(err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// authority signs the certificates of a job.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// write makes a key and a certificate, which the authority signs, and writes both. Without an authority it makes one.
func write(t *testing.T, dir, name string, by *authority) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	c := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, DNSNames: []string{"job"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: by == nil, BasicConstraintsValid: true}
	if by == nil {
		by = &authority{c, key}
	}
	der, err := x509.CreateCertificate(rand.Reader, c, by.cert, &key.PublicKey, by.key)
	require.NoError(t, err)
	private, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(t, err)
	for ending, block := range map[string]*pem.Block{".pem": {Type: "CERTIFICATE", Bytes: der}, ".key": {Type: "PRIVATE KEY", Bytes: private}} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name+ending), pem.EncodeToMemory(block), 0o600))
	}
	return by
}

// job runs two ranks, each with a certificate, and returns what they say. They form a group within the limit. Variables come as
// NAME=value.
func job(t *testing.T, dir string, limit time.Duration, certs [2]string, env ...string) (outs [2]string, errs [2]error) {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	port := freeport.Port(t, "127.0.0.1")
	var ranks sync.WaitGroup
	for rank, cert := range certs {
		ranks.Go(func() {
			cmd := exec.CommandContext(t.Context(), self, "-cert", cert+".pem", "-key", cert+".key", "-ca", "ca.pem")
			cmd.Dir = dir
			cmd.Env = append(append(os.Environ(), env...), fmt.Sprint("RANK=", rank), "WORLD_SIZE=2", "MASTER_ADDR=127.0.0.1", "MASTER_PORT="+port,
				fmt.Sprint("COLLIGO_CONNECT_TIMEOUT_SEC=", limit.Seconds()))
			var out bytes.Buffer
			cmd.Stdout, cmd.Stderr = &out, &out
			errs[rank] = cmd.Run()
			outs[rank] = out.String()
		})
	}
	ranks.Wait()
	return outs, errs
}

// TestJob runs two processes that know each other by the certificates of one authority.
func TestJob(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, "rank", write(t, dir, "ca", nil))
	outs, errs := job(t, dir, time.Minute, [2]string{"rank", "rank"})
	for rank := range outs {
		require.NoError(t, errs[rank], outs[rank])
		require.Contains(t, outs[rank], fmt.Sprintf("rank %d of 2: sum 3 over TLS\n", rank))
	}
}

// TestByEnvironment runs the program without a line about TLS in it. A rank without the variables is not let in.
func TestByEnvironment(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, "rank", write(t, dir, "ca", nil))
	both, env := [2]string{"rank", "rank"}, []string{byEnvironment + "=1"}
	outs, errs := job(t, dir, time.Minute, both, env...) // without the variables: a plain job
	require.NoError(t, errors.Join(errs[:]...), "%s%s", outs[0], outs[1])
	for name, file := range map[string]string{"CERT": "rank.pem", "KEY": "rank.key", "CA": "ca.pem"} {
		env = append(env, "COLLIGO_TLS_"+name+"="+filepath.Join(dir, file))
	}
	outs, errs = job(t, dir, time.Minute, both, env...)
	require.NoError(t, errors.Join(errs[:]...), "%s%s", outs[0], outs[1])
	outs, errs = job(t, dir, 8*time.Second, both, append(env, "COLLIGO_TLS_NAME=another")...)
	require.Error(t, errs[0])
	require.Error(t, errs[1])
	require.Contains(t, outs[0], "valid for job, not another")
}

// TestStranger runs a rank whose certificate another authority has signed: it is let into neither store nor group.
func TestStranger(t *testing.T) {
	t.Parallel()
	dir, elsewhere := t.TempDir(), t.TempDir()
	write(t, dir, "rank", write(t, dir, "ca", nil))
	write(t, elsewhere, "stranger", write(t, elsewhere, "other", nil))
	for _, ending := range []string{".pem", ".key"} {
		require.NoError(t, os.Rename(filepath.Join(elsewhere, "stranger"+ending), filepath.Join(dir, "stranger"+ending)))
	}
	outs, errs := job(t, dir, 8*time.Second, [2]string{"rank", "stranger"})
	for rank := range outs {
		require.Error(t, errs[rank], outs[rank])
		require.NotContains(t, outs[rank], "over TLS")
	}
	require.Contains(t, outs[1], "certificate")
}
