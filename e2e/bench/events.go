package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/garrison-fleet/garrison/pkg/topology"
)

// eventServers is how many servers have a ledger of 500,000 facts, with ten agents each.
const eventServers = 9_500

// measureEvents measures how the CLI reads a long ledger: its end, a noun, a time and a server.
func measureEvents(ctx context.Context, s settings) (_ []figure, err error) {
	s.servers, s.agents = serverCounts{eventServers}, 10
	w, err := newStocked(ctx, s)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, w.close()) }()
	if err := w.write(ctx); err != nil {
		return nil, fmt.Errorf("fill the ledger: %w", err)
	}
	fmt.Printf("a ledger of %d facts\n", w.facts)
	if err := w.begin(ctx, topology.UserRegistry); err != nil {
		return nil, err
	}
	aloneTook, _, err := w.commandOften(ctx, commandRounds, "versions", "--client")
	if err != nil {
		return nil, err
	}
	var out []figure
	first, middle := w.server(0), w.server(w.servers/2)
	for _, args := range []string{
		"--limit 20", "--limit 20 --noun task", "--limit 20 --noun application", "--limit 20 --id " + middle,
		"--id " + middle, "--id " + first, "--id " + w.name(w.servers/2),
		"--limit 20 --since " + time.Now().Add(-time.Hour).UTC().Format(time.RFC3339),
		"--cursor " + fmt.Sprint(w.facts-100),
	} {
		took, _, err := w.commandOften(ctx, commandRounds, strings.Fields("events -o jsonl "+args)...)
		if err != nil {
			return nil, err
		}
		out = append(out, figure{"garrison events " + args + ", ms", spread(took, "%.0f"),
			"versions --client: " + spread(aloneTook, "%.0f"), ratio(median(took), median(aloneTook)), "<= 100"})
	}
	return out, nil
}
