package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	desiredv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/desired/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/topology"
)

// measureLatency measures the time from the publishing of an intent until its document can be
// read, on an unloaded system. It reads when the bell rings.
func measureLatency(ctx context.Context, s settings) (_ []figure, err error) {
	w, server, err := oneServer(ctx, s, quick("1.0.0"), quick("2.0.0"))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, w.close()) }()
	l := &latency{server: server.Name}
	if l.operator, err = w.operator(); err != nil {
		return nil, err
	}
	defer l.operator.Close()
	if l.dispatcher, err = w.service(topology.UserDispatcher); err != nil {
		return nil, err
	}
	defer l.dispatcher.Close()
	n := max(s.scaled(50), 10)
	var intents, publishes []float64
	for i := range n {
		version := []string{"2.0.0", "1.0.0"}[i%2]
		stored, readable, err := l.once(ctx, version)
		if err != nil {
			return nil, err
		}
		publishes, intents = append(publishes, stored), append(intents, readable)
		if err := waitConverged(ctx, w, version, 1); err != nil {
			return nil, err
		}
	}
	slices.Sort(intents)
	p99 := intents[len(intents)*99/100]
	return []figure{{
		"intent published -> document readable, ms", fmt.Sprintf("p50 %.1f, p99 %.1f (n=%d)", median(intents), p99, n),
		fmt.Sprintf("one stored publish: p50 %.2f", median(publishes)), ratio(median(intents), median(publishes)), "",
	}}, nil
}

type latency struct {
	operator, dispatcher *bus.Conn
	server               string
}

// once publishes an upgrade and waits until a document with it can be read. It returns
// the milliseconds until the intent was stored and until the document was readable.
func (l *latency) once(ctx context.Context, version string) (stored, readable float64, err error) {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	id := ident.New()
	data, err := proto.Marshal(&intentv1.Intent{Ask: &intentv1.Intent_Upgrade{Upgrade: &intentv1.Upgrade{
		Agent: "beacon", Image: &intentv1.ImageChoice{By: &intentv1.ImageChoice_Version{Version: version}},
		On: &intentv1.Selector{Servers: []string{l.server}},
	}}})
	if err != nil {
		return 0, 0, err
	}
	started := time.Now()
	subject := topology.IntentSubject(topology.VerbUpgrade, l.operator.Name(), id)
	_, err = l.operator.PublishDurable(ctx, bus.Durable{Subject: subject, Once: true, Data: data})
	if err != nil {
		return 0, 0, err
	}
	stored = time.Since(started).Seconds() * 1000
	for {
		subjects, err := l.dispatcher.DirectGetFrom(ctx, topology.Desired, topology.DesiredSubjects, 1, 1)
		if err != nil {
			return 0, 0, err
		}
		if len(subjects) == 1 && wants(subjects[0].Data, version) {
			return stored, time.Since(started).Seconds() * 1000, nil
		}
	}
}

// wants reports whether a document has a task under way that brings the version.
func wants(document []byte, version string) bool {
	var d desiredv1.Document
	if proto.Unmarshal(document, &d) != nil {
		return false
	}
	return slices.ContainsFunc(d.Entries, func(e *desiredv1.Entry) bool { return e.Image.GetVersion() == version })
}

// waitOnline waits until that many servers are online.
func waitOnline(ctx context.Context, w *world, n int) error {
	return poll(ctx, "servers are online", func() (bool, error) {
		out, err := w.CLI(ctx, "server", "list", "-o", "json", "--limit", strconv.Itoa(n+1))
		return strings.Count(out, "PRESENCE_ONLINE") == n, err
	})
}

// waitConverged waits until that many instances are converged at a version.
func waitConverged(ctx context.Context, w *world, version string, n int) error {
	return poll(ctx, "instances are converged", func() (bool, error) {
		out, err := w.CLI(ctx, "instance", "list", "--kind", "daemon", "--no-headers", "--limit", strconv.Itoa(n+1))
		done := 0
		for line := range strings.Lines(out) {
			if strings.Contains(line, "converged") && strings.Count(line, version) >= 1 {
				done++
			}
		}
		return done == n, err
	})
}

func poll(ctx context.Context, what string, done func() (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	for {
		ok, err := done()
		if ok && err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait until %s: %w", what, errors.Join(ctx.Err(), err))
		case <-time.After(20 * time.Millisecond):
		}
	}
}
