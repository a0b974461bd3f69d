package allinone_test

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/garrison-fleet/garrison/deploy/allinone"
	"github.com/garrison-fleet/garrison/pkg/debug"
	"github.com/garrison-fleet/garrison/pkg/polltest"
	"github.com/garrison-fleet/garrison/pkg/topology"
)

func TestEachServiceShowsItsStateUnderItsOwnName(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	dir := t.TempDir()
	var state debug.State
	g, err := allinone.Start(ctx, allinone.Config{
		Data: filepath.Join(dir, "data"), Listen: "127.0.0.1:0", Log: zerolog.Nop(), Lazy: true, Debug: &state,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = g.Close() })
	socket := filepath.Join(dir, "debug.sock")
	t.Cleanup(debug.Start(context.WithoutCancel(ctx), socket, &state, zerolog.Nop()))
	var paths []byte
	polltest.Eventually(t, "the socket answers", func() bool {
		paths, err = debug.Get(ctx, socket, "/")
		return err == nil
	})
	for _, service := range topology.Services {
		for part, want := range map[string]string{"view": `"tables"`, "fold": `"position"`, "queues": `"appends"`} {
			path := "/state/" + service + "." + part
			data, err := debug.Get(ctx, socket, path)
			if err != nil || !strings.Contains(string(data), want) || !strings.Contains(string(paths), path+"\n") {
				t.Errorf("%s: %v, %s, among %s", path, err, data, paths)
			}
		}
	}
}
