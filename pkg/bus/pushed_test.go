package bus_test

import (
	"testing"

	"github.com/garrison-fleet/garrison/pkg/bus"
)

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
