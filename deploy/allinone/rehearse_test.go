package allinone

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/topology"
	"github.com/garrison-fleet/garrison/pkg/trust"
)

// rehearsed returns what a rehearsal on the data of a Garrison prints.
func rehearsed(t *testing.T, data string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var out strings.Builder
	err := Rehearse(ctx, Rehearsal{Data: data, Bus: topology.Bus{Replicas: 1, SyncsAlways: true}, Log: &out})
	return out.String(), err
}

// as connects as a user of the authority.
func as(t *testing.T, data, url, user string) *bus.Conn {
	t.Helper()
	c, err := bus.Dial(bus.Options{
		URL: url, Name: user, Log: zerolog.Nop(), API: topology.APIOf(user),
		TLS:         bus.TLS{CA: trust.ReadBundle(filepath.Join(data, "trust", "tls", "ca.pem"))},
		Credentials: trust.ReadCredentials(trust.ServiceCredentials(filepath.Join(data, "trust"), user)),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func TestARehearsalFoldsTheLedgerAndLeavesTheViews(t *testing.T) {
	t.Parallel()
	data := filepath.Join(t.TempDir(), "data")
	_, operator := serves(t, data)
	recorded(t, operator, "before")
	out, err := rehearsed(t, data)
	if err != nil {
		t.Fatalf("%v:\n%s", err, out)
	}
	for _, want := range []string{
		"nothing to change", "registry: folded ", "image-catalog: folded ", "task-dispatcher: folded ",
		"access: folded ", "good: ",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("it does not print %q:\n%s", want, out)
		}
	}
	views, err := filepath.Glob(filepath.Join(data, "views", "*.view"))
	if err != nil || len(views) != len(topology.Services) {
		t.Errorf("views %v (%v), want one of each service", views, err)
	}
	if again, err := rehearsed(t, data); err != nil || !strings.Contains(again, "registry: folded 0 facts") {
		t.Errorf("again: %v\n%s\nwant nothing left to fold", err, again)
	}
}

// A fact that this version does not know would stop decisions.
func TestARehearsalNamesTheFactsThatThisVersionDoesNotKnow(t *testing.T) {
	t.Parallel()
	data := filepath.Join(t.TempDir(), "data")
	g, _ := serves(t, data)
	newer := bus.Durable{Subject: ledger.FactSubject(ledger.Environment, "prod", "frozen")}
	if _, err := as(t, data, g.URL(), topology.UserRegistry).PublishDurable(t.Context(), newer); err != nil {
		t.Fatal(err)
	}
	out, err := rehearsed(t, data)
	if !errors.Is(err, ErrRehearsal) || !strings.Contains(out, "1 environment.frozen not known, the first is fact") {
		t.Errorf("%v\n%s\nwant the fact named", err, out)
	}
}

// Nothing that a rehearsal's user may send changes the bus.
func TestTheUserOfARehearsalCannotWrite(t *testing.T) {
	t.Parallel()
	data := filepath.Join(t.TempDir(), "data")
	g, _ := serves(t, data)
	c := as(t, data, g.URL(), topology.UserRehearsal)
	before, err := c.Stream(t.Context(), topology.Ledger)
	if err != nil {
		t.Fatalf("it may look: %v", err)
	}
	const api = topology.CoreAPI
	for _, subject := range []string{
		ledger.FactSubject(ledger.Environment, "prod", "deleted"), topology.IntentSubject("up", "operator", "id"),
		api + ".STREAM.PURGE." + topology.Ledger, api + ".STREAM.DELETE." + topology.Intents,
		api + ".STREAM.UPDATE." + topology.Ledger, api + ".STREAM.MSG.DELETE." + topology.Ledger,
		api + ".CONSUMER.CREATE." + topology.Ledger, api + ".STREAM.SNAPSHOT." + topology.Ledger,
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		if _, err := c.PublishDurable(ctx, bus.Durable{Subject: subject, Data: []byte("{}")}); err == nil {
			t.Errorf("%s: it was answered", subject)
		}
		cancel()
	}
	after, err := c.Stream(t.Context(), topology.Ledger)
	if err != nil || after.LastSequence != before.LastSequence || !after.Created.Equal(before.Created) {
		t.Errorf("the ledger ended at %d and ends at %d (%v)", before.LastSequence, after.LastSequence, err)
	}
}

func TestARehearsalSaysWhatItLacks(t *testing.T) {
	t.Parallel()
	data := filepath.Join(t.TempDir(), "data")
	g, err := tryStart(t, data)
	if err != nil {
		t.Fatal(err)
	}
	g.Close()
	if _, err := rehearsed(t, data); err == nil || !strings.Contains(err.Error(), "it is not running") {
		t.Errorf("nothing runs: %v", err)
	}
	if err := os.WriteFile(filepath.Join(data, "format"), []byte(`{"format":9,"format_floor":9}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := rehearsed(t, data); err == nil || !strings.Contains(err.Error(), "FORMAT_TOO_NEW") {
		t.Errorf("a newer directory: %v", err)
	}
	if _, err := rehearsed(t, t.TempDir()); err == nil {
		t.Error("an empty directory was taken")
	}
}
