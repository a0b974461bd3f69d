package operator

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/bustest"
	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"
)

// longLedger writes n facts about tasks, with one about a server among the first.
func longLedger(t *testing.T, b *bustest.Bus, n int) (conn *bus.Conn, ids []string) {
	t.Helper()
	conn = b.Dial(t, "writer")
	w := b.Writer(t, conn)
	about := ledger.Fact{
		Noun: ledger.Server, Key: web1, Body: &serverv1.Online{}, ID: ident.New(), At: noon, Source: ledger.Registry, Actor: "x",
	}
	drafts := []ledger.Draft{ledger.Free(about)}
	for i := range n - 1 {
		ids = append(ids, ident.From("task", fmt.Sprint(i)))
		drafts = append(drafts, ledger.Free(ledger.Fact{
			Noun: ledger.Task, Key: ids[i], Body: &taskv1.Queued{Agent: "beacon"}, ID: ident.New(), At: noon,
			Source: ledger.Dispatcher, Actor: "x", Request: web2,
		}))
	}
	for part := range slices.Chunk(drafts, 500) {
		if _, err := w.Append(t.Context(), part...); err != nil {
			t.Fatal(err)
		}
	}
	return conn, ids
}

// sequences reads the facts that fit.
func sequences(t *testing.T, conn *bus.Conn, f eventFlags, ids ...string) (out []uint64) {
	t.Helper()
	err := newReader(conn, f, ids).readAll(t.Context(), func(events []event) (bool, error) {
		for _, e := range events {
			out = append(out, e.Sequence)
		}
		return true, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestTheLastFactsAreReadFromTheEnd(t *testing.T) {
	conn, ids := longLedger(t, bustest.Start(t), 2600)
	for name, c := range map[string]struct {
		flags eventFlags
		ids   []string
		want  []uint64
	}{
		"the last":               {eventFlags{limit: 3}, nil, []uint64{2598, 2599, 2600}},
		"the last of a noun":     {eventFlags{limit: 2, noun: "task"}, nil, []uint64{2599, 2600}},
		"a rare noun":            {eventFlags{limit: 2, noun: "server"}, nil, []uint64{1}},
		"of a key":               {eventFlags{limit: 9}, []string{web1}, []uint64{1}},
		"of a key and its noun":  {eventFlags{noun: "task"}, []string{ids[2000]}, []uint64{2002}},
		"of a part of an id":     {eventFlags{limit: 1}, []string{ids[7][:8]}, []uint64{9}},
		"of a request":           {eventFlags{limit: 2}, []string{web2}, []uint64{2599, 2600}},
		"more than there are":    {eventFlags{limit: 5, noun: "server"}, nil, []uint64{1}},
		"from a place, forwards": {eventFlags{from: 2599}, nil, []uint64{2599, 2600}},
	} {
		have := sequences(t, conn, c.flags, c.ids...)
		if c.flags.limit > 0 { // the printer keeps the last of them
			have = have[max(0, len(have)-int(c.flags.limit)):]
		}
		if !slices.Equal(have, c.want) {
			t.Errorf("%s: %v, want %v", name, have, c.want)
		}
	}
}

// transcript is a writer that others read while it is written.
type transcript struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *transcript) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *transcript) count(word string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.text.String(), word)
}

// A backup is restored under somebody who follows the ledger, and the ledger grows beyond where it was.
func TestWhoFollowsALedgerThatWasSetBackIsToldAndReadsItAgain(t *testing.T) {
	b, backup := bustest.Start(t), t.TempDir()
	conn, _ := longLedger(t, b, 3)
	b.Restart(t, func(store string) {
		if err := os.CopyFS(backup, os.DirFS(store)); err != nil {
			t.Fatal(err)
		}
	})
	longLedger(t, b, 2)
	out, errs := &transcript{}, &transcript{}
	s := &session{
		in: strings.NewReader(""), out: out, err: errs, getenv: func(string) string { return "" }, now: time.Now,
		conn: b.Dial(t, "ann"),
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan int, 1)
	go func() { ended <- s.run(ctx, []string{"events", "-f", "-o", "name"}) }()
	bustest.Eventually(t, "five facts are read", func() bool { return out.count("\n") == 5 })
	b.Restart(t, func(store string) {
		if err := os.RemoveAll(store); err != nil {
			t.Fatal(err)
		}
		if err := os.CopyFS(store, os.DirFS(backup)); err != nil {
			t.Fatal(err)
		}
	})
	bustest.Eventually(t, "the bus is back", func() bool { _, err := conn.Stream(t.Context(), "LEDGER"); return err == nil })
	longLedger(t, b, 4)
	bustest.Eventually(t, "it is told", func() bool { return errs.count("reset: the ledger does not have fact 5 ") == 1 })
	bustest.Eventually(t, "all seven are read again", func() bool { return out.count("\n") == 12 })
	cancel()
	<-ended
}
