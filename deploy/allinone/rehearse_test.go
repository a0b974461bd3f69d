package allinone

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
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
	err := Rehearse(ctx, Rehearsal{Data: data, Log: &out})
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

// Nothing that a rehearsal's user may send changes the bus, and no answer to it goes to another subject of the bus.
func TestTheUserOfARehearsalCannotWrite(t *testing.T) {
	t.Parallel()
	data := filepath.Join(t.TempDir(), "data")
	g, _ := serves(t, data)
	looks := as(t, data, g.URL(), topology.UserProvision)
	ends := func() (out []uint64) {
		for _, s := range topology.Streams(1) {
			stream, err := looks.Stream(t.Context(), s.Name)
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, stream.LastSequence)
		}
		return out
	}
	nc, err := nats.Connect(g.URL(), nats.RootCAs(filepath.Join(data, "trust", "tls", "ca.pem")),
		nats.UserCredentials(trust.ServiceCredentials(filepath.Join(data, "trust"), topology.UserRehearsal)),
		nats.CustomInboxPrefix(topology.Inbox(topology.UserRehearsal)),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { t.Log(err) }))
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	server := topology.ServerAddress{Cell: "cell", Server: "server"}
	info := ".STREAM.INFO." + topology.Ledger
	before := ends()
	written := []string{
		ledger.FactSubject(ledger.Environment, "prod", "deleted"), topology.IntentSubject("up", "operator", "id"),
		topology.DesiredSubject(server), topology.ReportSubject(server, "agents"),
		topology.BlobSubject(make([]byte, 32), 0),
	}
	for _, subject := range written {
		for _, asked := range []string{
			topology.RehearsalAPI + info, topology.CoreAPI + info,
			topology.RehearsalAPI + ".DIRECT.GET." + topology.Ledger,
		} {
			if err := nc.PublishRequest(asked, subject, []byte(`{"seq":1}`)); err != nil {
				t.Fatal(err)
			}
		}
		if err := nc.Publish(subject, []byte("{}")); err != nil {
			t.Fatal(err)
		}
	}
	for of := range strings.FieldsSeq("STREAM.PURGE STREAM.DELETE STREAM.UPDATE STREAM.MSG.DELETE CONSUMER.CREATE") {
		for _, api := range []string{topology.CoreAPI, topology.RehearsalAPI} {
			if err := nc.Publish(api+"."+of+"."+topology.Intents, []byte("{}")); err != nil {
				t.Fatal(err)
			}
		}
	}
	if _, err := nc.Request(topology.RehearsalAPI+info, nil, time.Minute); err != nil {
		t.Fatalf("it may look: %v", err)
	}
	if after := ends(); !slices.Equal(after, before) {
		t.Errorf("the streams ended at %d and end at %d", before, after)
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
	if _, err := rehearsed(t, data); err == nil || !strings.Contains(err.Error(), "no garrisond runs") {
		t.Errorf("nothing runs: %v", err)
	}
	for _, file := range []string{"secrets.key", "keys/operator.seed"} {
		path := filepath.Join(data, "trust", file)
		kept, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("damaged"), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := rehearsed(t, data); err == nil || strings.Contains(err.Error(), "no garrisond runs") {
			t.Errorf("with a damaged %s: %v", file, err)
		}
		if err := os.WriteFile(path, kept, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if left, err := filepath.Glob(filepath.Join(data, ".rehearsal-*")); err != nil || len(left) > 0 {
		t.Errorf("copies of the keys are left: %v (%v)", left, err)
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

// A copy of a data directory names the address of the first one, which must not be taken for it.
func TestACopyOfADataDirectoryIsNotTheOneThatRuns(t *testing.T) {
	t.Parallel()
	data, copied := filepath.Join(t.TempDir(), "data"), filepath.Join(t.TempDir(), "copy")
	serves(t, data)
	if err := copyTree(data, copied); err != nil {
		t.Fatal(err)
	}
	if _, err := rehearsed(t, copied); err == nil || !strings.Contains(err.Error(), "no garrisond runs with") {
		t.Errorf("rehearsed: %v", err)
	}
	err := WriteBackup(t.Context(), Backup{Data: copied, File: filepath.Join(t.TempDir(), "backup"), Log: io.Discard})
	if err == nil || !strings.Contains(err.Error(), "no garrisond runs with") {
		t.Errorf("backed up: %v", err)
	}
}
