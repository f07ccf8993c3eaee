package debug_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/colligo-go/colligo"
	"github.com/colligo-go/colligo/pg"
	"github.com/colligo-go/colligo/pg/debug"
)

// A program puts the pages of its group into its own server.
func ExampleHandler() {
	groups, err := pg.InProcess(context.Background(), 1, pg.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	pages := http.NewServeMux()
	pages.Handle("/debug/colligo/", debug.Handler(groups[0]))
	page := httptest.NewRecorder() // http.ListenAndServe(address, pages) in a program
	pages.ServeHTTP(page, httptest.NewRequest(http.MethodGet, "/debug/colligo/status", nil))
	fmt.Println(page.Code, strings.Contains(page.Body.String(), "rank 0 of 1"), groups[0].Close())
	// Output: 200 true <nil>
}

// A program that has a page for Prometheus writes the counts of its groups there.
func ExampleWriteMetrics() {
	ctx := context.Background()
	groups, err := pg.InProcess(ctx, 1, pg.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	var page bytes.Buffer
	err = errors.Join(groups[0].AllReduce(ctx, colligo.Of(make([]float32, 4)), colligo.Sum), debug.WriteMetrics(&page, groups...))
	for line := range strings.Lines(page.String()) {
		if strings.HasPrefix(line, "colligo_operation_bytes_total{") {
			fmt.Print(line)
		}
	}
	fmt.Println(errors.Join(err, groups[0].Close()))
	// Output:
	// colligo_operation_bytes_total{group="0",rank="0",operation="ALLREDUCE"} 16
	// <nil>
}
