package main

import (
	"context"

	"github.com/garrison-fleet/garrison/e2e/sample"
)

// versions creates the agent beacon with these versions, by the CLI.
func versions(ctx context.Context, w *world, of ...sample.Version) error {
	if _, err := w.CLI(ctx, "agent", "create", sample.Agent, "--kind", "daemon"); err != nil {
		return err
	}
	return sample.Import(ctx, w.CLI, w.Bin, w.Dir, of...)
}

// twoVersions creates the agent beacon with versions 1.0.0 and 2.0.0.
func twoVersions(ctx context.Context, w *world) error {
	return versions(ctx, w, quick("1.0.0"), quick("2.0.0"))
}

// quick is a version that loses no time on purpose.
func quick(version string) sample.Version {
	return sample.Version{Version: version, Ready: "10s", Soak: "100ms", Stop: "5s"}
}
