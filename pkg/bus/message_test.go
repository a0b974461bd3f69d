package bus_test

import (
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/topology"
)

// storeForged stores a fact whose publisher wrote the headers in which the bus says where a message stands.
func (f *following) storeForged(body, name, value string) {
	f.Helper()
	m := &nats.Msg{Subject: ledger.FactSubject(ledger.Server, "s", "online"), Data: []byte(body)}
	m.Header = nats.Header{name: {value}}
	if _, err := f.raw.RequestMsg(m, time.Minute); err != nil {
		f.Fatal(err)
	}
}

var forgeries = map[string][2]string{
	"another subject":       {"Nats-Subject", ledger.FactSubject(ledger.Server, "victim", "dead")},
	"another place":         {"Nats-Sequence", "9223372036854775807"},
	"another time":          {"Nats-Time-Stamp", "2001-01-01T00:00:00Z"},
	"another one before it": {"Nats-Last-Sequence", "99"},
	"the end of a batch":    {"Status", "204"},
	"no message":            {"Status", "404"},
	"no stream":             {"Status", "503"},
}

func TestAPublisherCannotForgeWhereItsMessageStands(t *testing.T) {
	for what, header := range forgeries {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			f := newFollowing(t)
			f.storeForged("1", "Any", "header")
			f.storeForged("2", header[0], header[1])
			f.storeForged("3", "Any", "header")
			f.begin(3) // by reading
			f.storeForged("4", header[0], header[1])
			f.takes(4, "4") // from its announcement, or by reading
			f.storeForged("5", "Any", "header")
			f.takes(5, "5")

			subject := ledger.FactSubject(ledger.Server, "s", "online")
			f.storeForged("6", header[0], header[1])
			m, err := f.conn.DirectGet(t.Context(), topology.Ledger, subject)
			f.is(m, err)
			m, err = f.conn.DirectGetLast(t.Context(), topology.Ledger, ">")
			f.is(m, err)
			if all, err := f.conn.DirectGetFrom(t.Context(), topology.Ledger, ">", 6, 9); err != nil || len(all) != 1 {
				t.Errorf("from 6: %d messages, %v", len(all), err)
			} else {
				f.is(all[0], err)
			}
			all, _, err := f.conn.DirectGetPart(t.Context(), topology.Ledger, bus.Part{
				Filter: ">", From: 6, Count: 9, Bytes: 1 << 20,
			})
			if err != nil || len(all) != 1 {
				t.Fatalf("a part from 6: %d messages, %v", len(all), err)
			}
			f.is(all[0], err)
			all, err = f.conn.DirectGetFresh(t.Context(), topology.Ledger, 6, subject)
			if err != nil || len(all) != 1 {
				t.Fatalf("fresh: %d messages, %v", len(all), err)
			}
			f.is(all[0], err)
		})
	}
}

// is wants the sixth message, where it stands.
func (f *following) is(m bus.Message, err error) {
	f.Helper()
	if err != nil || m.Subject != ledger.FactSubject(ledger.Server, "s", "online") || m.Sequence != 6 ||
		string(m.Data) != "6" || time.Since(m.Time) > time.Hour {
		f.Errorf("have %d %q of %q, %v, %v", m.Sequence, m.Data, m.Subject, m.Time, err)
	}
}

func TestAPushedMessageIsTheOneThatTheBusStoredOnTheSubject(t *testing.T) {
	t.Parallel()
	header := func(more ...string) map[string][]string {
		h := map[string][]string{
			"Nats-Subject": {"mine"}, "Nats-Sequence": {"7"}, "Nats-Time-Stamp": {"2026-11-24T00:00:00Z"},
		}
		for i := 0; i < len(more); i += 2 {
			h[more[i]] = append(h[more[i]], more[i+1])
		}
		return h
	}
	data, noSequence := []byte("x"), map[string][]string{"Nats-Subject": {"mine"}}
	for name, c := range map[string]struct {
		m    bus.Message
		want uint64 // the sequence; 0 when nothing was pushed
	}{
		"the message":                     {bus.Message{Header: header(), Data: data}, 7},
		"its headers only":                {bus.Message{Header: header("Nats-Msg-Size", "1")}, 0},
		"an empty message":                {bus.Message{Header: header()}, 0},
		"one of another subject":          {bus.Message{Header: header("Nats-Subject", "another"), Data: data}, 0},
		"one without a sequence":          {bus.Message{Header: noSequence, Data: data}, 0},
		"one that was published as it is": {bus.Message{Data: data}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			m, ok := c.m.Pushed("mine")
			if m.Sequence != c.want || ok != (c.want > 0) {
				t.Errorf("sequence %d, %v; want %d", m.Sequence, ok, c.want)
			}
		})
	}
}
