package faults_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"github.com/garrison-fleet/garrison/e2e/rig"
	"github.com/garrison-fleet/garrison/e2e/scenario"
	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/topology"
	"github.com/garrison-fleet/garrison/pkg/trust"
)

// When a bit flips in the ledger's file, the bus silently drops the facts behind it. Garrison
// stops and names them, until an operator continues without them.
func TestALedgerThatLostItsEndIsNoticedAtTheNextStart(t *testing.T) {
	t.Parallel()
	w := &world{scenario.New(t, rig.Options{Audit: true})}
	for i := range 30 {
		w.OK("app", "create", fmt.Sprint("app-", i))
	}
	end := uint64(len(w.Facts()))
	for _, service := range topology.Services { // the first service that notices ends the process
		w.Eventually(service+" has marked the end", func() error { return w.marked(service, end) })
	}
	scenario.Must(t, w.Garrisond.Kill())
	streams := filepath.Join(w.DataDir(), "jetstream", "jetstream", "*", "streams")
	blocks, err := filepath.Glob(filepath.Join(streams, "LEDGER", "msgs", "*.blk"))
	if err != nil || len(blocks) != 1 {
		t.Fatalf("the ledger's files: %v (%v), want one", blocks, err)
	}
	data, err := os.ReadFile(blocks[0])
	if err != nil {
		t.Fatal(err)
	}
	data[len(data)*4/5] ^= 1
	scenario.Must(t, os.WriteFile(blocks[0], data, 0o600))

	scenario.Must(t, w.Garrisond.Start())
	code, err := w.Garrisond.Ended(t.Context())
	if log := w.Garrisond.Log(); err != nil || code != 1 || !strings.Contains(log, "LEDGER_SHORT") ||
		!strings.Contains(log, fmt.Sprintf("to %d are gone", end)) || !strings.Contains(log, "--accept-ledger") {
		t.Fatalf("garrisond ended with %d (%v), want 1 and LEDGER_SHORT up to fact %d:\n%s", code, err, end, log)
	}
	w.Garrisond.AddArgs("--accept-ledger")
	scenario.Must(t, w.Start(t.Context()))
	w.OK("app", "create", "goes-on")
	w.EqualViews()
	w.audits().hasAll() // the copy had what the ledger lost, and was made anew
}

// marked reports whether a service has recorded that it read the ledger up to a fact.
func (w *world) marked(service string, end uint64) error {
	var mark struct{ Sequence uint64 }
	data, err := os.ReadFile(filepath.Join(w.ViewsDir(), service+".mark"))
	if err == nil {
		err = json.Unmarshal(data, &mark)
	}
	if err == nil && mark.Sequence != end {
		err = fmt.Errorf("marked %d of %d", mark.Sequence, end)
	}
	return err
}

// A service that reads a fact of a newer version reports it, answers, and decides nothing
// that rests on it.
func TestAServiceThatCannotReadAFactSaysSoAndDecidesNothingOnIt(t *testing.T) {
	t.Parallel()
	foreign := ledger.FactSubject(ledger.Environment, "prod", "frozen")
	w := &world{scenario.New(t, rig.Options{Foreign: []string{foreign}})}
	if _, err := w.CLI(t.Context(), "versions", "--check"); err != nil {
		t.Fatalf("before there is such a fact: %v", err)
	}
	credentials := trust.ReadCredentials(
		filepath.Join(w.DataDir(), "trust", "services", topology.UserRegistry+".creds"))
	conn, err := bus.Dial(bus.Options{
		URL: w.URL(), Name: topology.UserRegistry, Credentials: credentials, Log: zerolog.Nop(),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	newer := bus.Durable{Subject: foreign, Data: []byte("?")}
	if _, err := conn.PublishDurable(t.Context(), newer); err != nil {
		t.Fatal(err)
	}
	w.Eventually("versions --check names the service and the fact", func() error {
		_, err := w.CLI(t.Context(), "versions", "--check")
		e, ok := errors.AsType[*rig.CLIError](err)
		const named = "registry: cannot decode all of 1 environment.frozen from fact"
		if !ok || e.Code != 3 || !strings.Contains(e.Stderr, named) {
			return fmt.Errorf("%v, want exit code 3 and the fact named", err)
		}
		return nil
	})
	w.Fails(1, "SERVICE_TOO_OLD: 1 facts environment.frozen in the ledger", "env", "create", "test")
	w.OK("env", "list")
	w.OK("app", "create", "shop") // which does not rest on environments
}
