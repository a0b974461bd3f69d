package registry

import (
	"testing"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/topology"
)

func TestAPoisonedIntentDelaysNoOther(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.agent("web")
	s.channel("release", true)
	s.image("web", "1.0.0", "release")
	s.server("one")
	garbage := ident.New()
	s.publishRaw(
		bus.Durable{Subject: topology.IntentSubject("install", "alice", garbage), Data: []byte{0xff, 0xff, 0xff}})
	s.publishRaw(bus.Durable{Subject: topology.IntentSubject("install", "alice", "not-an-id"), Data: []byte("?")})

	s.accepted(topology.VerbInstall, install("web", on("one")))

	if r := s.outcome(garbage); r.Refusal.GetCode() != "MALFORMED" || r.Intent != nil {
		t.Errorf("the intent that cannot be read became %v", r)
	}
	s.untilDeadLetters(topology.Intents, 1)
}
