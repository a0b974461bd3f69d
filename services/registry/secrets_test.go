package registry

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/prototext"

	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/record"
	"github.com/garrison-fleet/garrison/pkg/secret"
	"github.com/garrison-fleet/garrison/pkg/topology"
	agentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/agent/v1"
	applicationv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/application/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
)

const canary = "hunter2-canary"

func (s *site) sealed(name, value string) string {
	s.t.Helper()
	return must[*registryv1.SealSecretsResponse](s, "SealSecrets",
		&registryv1.SealSecretsRequest{Values: map[string]string{name: value}}).GetSealed()[name]
}

func configure(agent string, set map[string]string, on *intentv1.Selector) *intentv1.Intent {
	return &intentv1.Intent{Ask: &intentv1.Intent_Configure{
		Configure: &intentv1.Configure{Agent: agent, Set: set, On: on},
	}}
}

// A secret comes to an instance from every layer, and no fact and no answer has it in clear.
func TestASecretIsSealedInEveryFact(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.channel("release", true)
	password := map[string]string{"password": s.sealed("password", canary+"-1")}
	s.put(record.Create(&applicationv1.Application{Name: "shop", Metadata: password}))
	token := map[string]string{"token": s.sealed("token", canary+"-2")}
	s.put(record.Create(&agentv1.Agent{
		Name: "web", Kind: agentv1.Kind_KIND_DAEMON, Application: "shop", Metadata: token,
	}))
	s.image("web", "1.0.0", "release")
	id := s.server("one")
	s.accepted(topology.VerbInstall, install("web", on("one")))
	set := map[string]string{"pin": s.sealed("pin", canary+"-3")}
	s.accepted(topology.VerbConfigure, configure("web", set, on("one")))
	var wanted string
	for _, f := range s.facts(ledger.Noun("*"), "*") {
		text := prototext.Format(f.Body)
		if strings.Contains(text, canary) {
			t.Errorf("the fact %s has a secret in clear", f.Name())
		}
	}
	for _, f := range s.facts(ledger.Instance, ledger.Key(id, "web")) {
		wanted = prototext.Format(f.Body)
	}
	for _, name := range []string{"password", "token", "pin"} {
		if !strings.Contains(wanted, name) {
			t.Errorf("the instance lacks %s: %s", name, wanted)
		}
	}
	// The same secret again changes nothing.
	if r := s.outcome(s.publish(topology.VerbConfigure, configure("web", set, on("one")))); r.GetChanged() != 0 {
		t.Errorf("the same secret changes %d servers", r.GetChanged())
	}
}

func TestASecretIsRefusedInClearUnderAnotherNameAndWhenForged(t *testing.T) {
	t.Parallel()
	s := start(t)
	sealed := s.sealed("password", canary)
	agent := func(metadata map[string]string) *registryv1.PutRecordRequest {
		return record.Change(&agentv1.Agent{
			Name: "web", Kind: agentv1.Kind_KIND_DAEMON, Metadata: metadata,
		})
	}
	s.put(record.Create(agent(map[string]string{"password": sealed}).Record.GetAgent()))
	for _, c := range []struct {
		what     string
		metadata map[string]string
		code     string
	}{
		{"as it is", map[string]string{"password": sealed}, "none"},
		{"in clear", map[string]string{"password": canary}, "SECRET_IN_CLEAR"},
		{"under another name", map[string]string{"password": sealed, "other": sealed}, "BAD_METADATA"},
		{"cut", map[string]string{"password": sealed[:len(sealed)-4]}, "BAD_METADATA"},
		{"without it", nil, "none"},
		{"in clear, once it is gone", map[string]string{"password": "public"}, "none"},
	} {
		if got := s.code("PutRecord", agent(c.metadata)); got != c.code {
			t.Errorf("%s: code %q, want %q", c.what, got, c.code)
		}
	}
	forged := configure("web", map[string]string{"pin": sealed}, &intentv1.Selector{All: true})
	if r := s.outcome(s.publish(topology.VerbConfigure, forged)); r.GetRefusal().GetCode() != "BAD_METADATA" {
		t.Errorf("an intent with a secret of another name: %v", r.GetRefusal())
	}
	all := forged.GetConfigure().GetOn()
	own := &intentv1.Install{Agent: "web", Own: map[string]*intentv1.OwnValues{
		"s": {Values: forged.GetConfigure().GetSet()},
	}}
	ask := &intentv1.Rollout{On: all, Steps: []*intentv1.Step{{Change: &intentv1.Step_Install{Install: own}}}}
	step := must[*registryv1.PlanRolloutResponse](s, "PlanRollout", &registryv1.PlanRolloutRequest{
		Intent: &intentv1.Intent{Ask: &intentv1.Intent_Rollout{Rollout: ask}},
	})
	if step.GetRefusal().GetCode() != "BAD_METADATA" {
		t.Errorf("a step of a rollout with a secret of another name: %v", step.GetRefusal())
	}
	plan := must[*registryv1.PlanIntentResponse](s, "PlanIntent", &registryv1.PlanIntentRequest{Intent: forged})
	if plan.GetPlans()[0].GetRefusal().GetCode() != "BAD_METADATA" {
		t.Errorf("its plan: %v", plan)
	}
	other, err := secret.ParseKey(secret.NewKeyText())
	if err != nil {
		t.Fatal(err)
	}
	foreign := map[string]string{"password": other.Seal("password", "x")}
	if got := s.code("PutRecord", agent(foreign)); got != "BAD_METADATA" {
		t.Errorf("sealed by another Garrison: code %q", got)
	}
}
