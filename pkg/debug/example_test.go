package debug_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/garrison-fleet/garrison/pkg/debug"
)

func ExampleServe() {
	dir, err := os.MkdirTemp("", "debug")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = os.RemoveAll(dir) }()
	socket := filepath.Join(dir, "debug.sock")
	var state debug.State
	state.Set("servers", func() any { return 3 })

	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { defer close(ended); _ = debug.Serve(ctx, socket, &state) }()
	defer func() { cancel(); <-ended }()

	answer, err := debug.Get(ctx, socket, "/state/servers")
	for err != nil { // it does not listen yet
		answer, err = debug.Get(ctx, socket, "/state/servers")
	}
	fmt.Printf("%s", answer)
	// Output: 3
}
