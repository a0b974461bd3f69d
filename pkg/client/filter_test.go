package client_test

import (
	"testing"

	"github.com/garrison-fleet/garrison/pkg/client"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
)

func TestAFilterSelectsByEachOfItsWords(t *testing.T) {
	e := client.Event{Fact: ledger.Fact{
		Noun: ledger.Server, Key: server1, Actor: "ann", Request: "01900000-0000-7000-8000-0000000000ff",
		Body: &serverv1.Offline{},
	}}
	for _, c := range []struct {
		filter client.Filter
		fits   bool
	}{
		{client.Filter{}, true},
		{client.Filter{Nouns: []string{"task", "server"}, Facts: []string{"offline"}, Actor: "ann"}, true},
		{client.Filter{Nouns: []string{"task"}}, false},
		{client.Filter{Facts: []string{"online"}}, false},
		{client.Filter{Actor: "bob"}, false},
		{client.Filter{IDs: []string{"nothing", server1}}, true},
		{client.Filter{IDs: []string{server1[:13]}}, true},
		{client.Filter{IDs: []string{"0000000000ff"}}, true},
		{client.Filter{IDs: []string{server1[:7]}}, false},
		{client.Filter{IDs: []string{server1 + ".beacon"}}, false},
	} {
		if got := c.filter.Fits(e); got != c.fits {
			t.Errorf("%+v fits: %t, want %t", c.filter, got, c.fits)
		}
	}
	unread := client.Event{Subject: "a.b.halted"} // of a newer program
	if !(client.Filter{Facts: []string{"halted"}}).Fits(unread) {
		t.Errorf("the name of a fact without a body is %q", unread.Name())
	}
}
