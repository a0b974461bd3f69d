package client_test

import (
	"testing"
	"time"

	"github.com/garrison-fleet/garrison/pkg/client"
	"github.com/garrison-fleet/garrison/pkg/topology"
	"github.com/garrison-fleet/garrison/pkg/trust"
)

func TestARenewalIsDueInTheLastThird(t *testing.T) {
	t.Parallel()
	a, err := trust.OpenAuthority(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	person := func(expires time.Time) trust.Context {
		c, err := a.Person("ann", topology.Viewer, "nats://here", expires)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	c := person(now.Add(90 * time.Hour))
	for after, want := range map[time.Duration]bool{0: false, 59 * time.Hour: false, 61 * time.Hour: true} {
		if due := client.RenewalDue(c, now.Add(after)); due != want {
			t.Errorf("after %v it is due: %v, want %v", after, due, want)
		}
	}
	if client.RenewalDue(person(time.Time{}), now) || client.RenewalDue(trust.Context{JWT: "j"}, now) {
		t.Error("it is due for credentials that do not expire")
	}
}
