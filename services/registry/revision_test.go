package registry

import (
	"strings"
	"sync"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/emptypb"

	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/metadata"
	"github.com/garrison-fleet/garrison/pkg/record"
	"github.com/garrison-fleet/garrison/pkg/topology"
	agentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/agent/v1"
	applicationv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/application/v1"
	environmentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/environment/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
)

// Of all operators that read one revision and change it, through two registries, exactly one wins; the others
// learn who.
func TestOperatorsNeverOverwriteEachOtherSilently(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.registry()
	read := s.put( // a list of the other may be behind
		record.Create(&applicationv1.Application{Name: "net"})).Record.GetApplication()
	if read.Revision == 0 || read.ChangedBy == "" || read.ChangedAt != nil || len(read.Changed) > 0 {
		t.Fatalf("a new application is %v", read)
	}
	const operators = 8
	var wait sync.WaitGroup
	errs := make([]error, operators)
	for n := range operators {
		wait.Go(func() {
			next := proto.CloneOf(read)
			next.Metadata = map[string]string{"level": strings.Repeat("x", n+1)}
			_, errs[n] = ask[*registryv1.PutRecordResponse](s, "PutRecord",
				record.Change(next))
		})
	}
	wait.Wait()
	won := 0
	for _, err := range errs {
		r := fault.RefusalOf(err)
		switch {
		case err == nil:
			won++
		case r.GetCode() != "REVISION_CHANGED" || !fault.Is(err, fault.Conflict) ||
			!strings.Contains(r.GetMessage(), " changed metadata.level at "):
			t.Errorf("a loser got %v", err)
		}
	}
	if facts := s.facts(ledger.Application, "net"); won != 1 || len(facts) != 2 {
		t.Errorf("%d won, %d facts", won, len(facts))
	}
}

func TestARecordChangesOnlyAtTheRevisionThatIsNamed(t *testing.T) {
	t.Parallel()
	s := furnished(t)
	env := must[*registryv1.ListRecordsResponse](s, "ListRecords",
		record.List(ledger.Environment)).Environments[0]
	next := &environmentv1.Environment{
		Name: env.Name, Channel: "release", Description: "of tests", Revision: env.Revision + 1,
	}
	change := record.Change(next)
	if got := s.code("PutRecord", change); got != "REVISION_CHANGED" {
		t.Errorf("code %q", got)
	}
	next.Revision = env.Revision
	got := s.put(change).Record.GetEnvironment()
	if got.Revision <= env.Revision || got.ChangedAt == nil || got.Changed[len(got.Changed)-1] != "description" {
		t.Errorf("after the change: %v", got)
	}
	// A lost answer: the same change again holds already, though its revision has passed.
	s.put(change)
	s.agent("spare")
	one := must[*registryv1.ListRecordsResponse](s, "ListRecords", record.List(ledger.Agent)).Agents
	for _, a := range one {
		if a.Name == "spare" {
			remove := record.Delete(ledger.Agent, "spare", a.Revision+1)
			if got := s.code("DeleteRecord", remove); got != "REVISION_CHANGED" {
				t.Errorf("code %q", got)
			}
			s.put(record.Change(&agentv1.Agent{Name: "spare", Kind: a.Kind, Tier: 2}))
			remove.IfRevision = a.Revision
			if got := s.code("DeleteRecord", remove); got != "REVISION_CHANGED" {
				t.Errorf("a changed record: code %q", got)
			}
		}
	}
	for _, f := range s.facts(ledger.Environment, env.Name) {
		if c, ok := f.Body.(*environmentv1.Changed); ok && c.Environment.Revision != 0 {
			t.Error("a fact holds a revision")
		}
	}
}

const webSchema = `{"properties": {"log": {"properties": {"keep": {"type": "integer"}}},
	"password": {"minLength": 30}, "level": {"enum": ["info", "debug"]}}}`

func value(t *testing.T, text string) string {
	t.Helper()
	v, err := metadata.FromJSON(text)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// refusedCall returns the refusal of a call, as one line.
func (s *site) refusedCall(method string, q proto.Message) string {
	s.t.Helper()
	_, err := ask[*emptypb.Empty](s, protoreflect.Name(method), q) // an answer would decode as an empty one
	return fault.Line(fault.RefusalOf(err))
}

// webShop has an agent with a schema on two servers of no environment and on one of prod.
func webShop(t *testing.T) (*site, *agentv1.Agent) {
	s := start(t)
	s.channel("release", true)
	for _, name := range []string{"prod", "test"} {
		s.put(record.Create(&environmentv1.Environment{Name: name}))
	}
	s.put(record.Create(&applicationv1.Application{Name: "shop"}))
	web := &agentv1.Agent{Name: "web", Kind: agentv1.Kind_KIND_DAEMON, Application: "shop", Schema: webSchema}
	s.put(record.Create(web))
	s.image("web", "1.0.0", "release")
	for _, name := range []string{"one", "two", "three"} {
		s.server(name)
	}
	must[*registryv1.ChangeServerResponse](s, "ChangeServer",
		&registryv1.ChangeServerRequest{Server: "three", Environment: proto.String("prod")})
	s.accepted(topology.VerbInstall, install("web", on("one", "two", "three")))
	return s, web
}

// prod is a change of the metadata of an environment.
func prod(m map[string]string) *registryv1.PutRecordRequest {
	return record.Change(&environmentv1.Environment{Name: "prod", Metadata: m})
}

// An environment whose values break the schema is refused; one instance whose own values do is left out and named.
func TestMetadataFitsTheSchemaOfItsAgent(t *testing.T) {
	t.Parallel()
	s, web := webShop(t)
	secretValue := map[string]string{"password": s.sealed("password", canary)}
	for name, c := range map[string]struct {
		method string
		q      proto.Message
		want   string
	}{
		"an environment": {
			"PutRecord", prod(map[string]string{"log": value(t, `{"keep": "x"}`)}),
			`metadata.log.keep: got string, want integer (set by the environment prod)`,
		},
		"a secret": {
			"PutRecord", prod(secretValue),
			`metadata.password: the secret breaks minLength (set by the environment prod)`,
		},
		"an application": {
			"PutRecord", record.Change(&applicationv1.Application{
				Name: "shop", Metadata: map[string]string{"level": "loud"},
			}),
			`metadata.level: value must be one of 'info', 'debug' (set by the application shop)`,
		},
		"another schema": {
			"PutRecord", record.Change(&agentv1.Agent{
				Name: "web", Kind: web.Kind, Application: "shop", Schema: `{"required": ["level"]}`,
			}),
			`metadata.level: is required and missing (no level sets it)`,
		},
	} {
		got := s.refusedCall(c.method, c.q)
		if !strings.Contains(got, "SCHEMA_MISMATCH") || !strings.Contains(got, c.want) ||
			strings.Contains(got, canary) {
			t.Errorf("%s: %s", name, got)
		}
	}
	if got := s.code("PutRecord", record.Change(&agentv1.Agent{
		Name: "web", Kind: web.Kind, Schema: `{"$ref": "https://example.org/"}`,
	})); got != "BAD_SCHEMA" {
		t.Errorf("a remote schema: %q", got)
	}
	// No server is in the environment test, so nothing breaks.
	s.put(record.Change(&environmentv1.Environment{Name: "test", Metadata: map[string]string{"level": "loud"}}))
}

// A wrong value of an agent that was not installed yet was found at its first install.
func TestAnAgentsValuesFitItsSchemaBeforeItHasAnInstance(t *testing.T) {
	t.Parallel()
	s := start(t)
	s.put(record.Create(&applicationv1.Application{Name: "shop", Metadata: map[string]string{"level": "loud"}}))
	const text = `{"required": ["port"],
		"properties": {"level": {"enum": ["info"]}, "log": {"required": ["keep"]}}}`
	web := func(change func(*agentv1.Agent)) *agentv1.Agent {
		a := &agentv1.Agent{Name: "web", Kind: agentv1.Kind_KIND_DAEMON, Schema: text}
		change(a)
		return a
	}
	refused := func(method string, q proto.Message, want string) {
		t.Helper()
		if got := s.refusedCall(method, q); !strings.Contains(got, "SCHEMA_MISMATCH") || !strings.Contains(got, want) {
			t.Errorf("%s: %s; want %s", method, got, want)
		}
	}
	wrong := web(func(a *agentv1.Agent) { a.Metadata = map[string]string{"level": "x"} })
	inShop := web(func(a *agentv1.Agent) { a.Application = "shop" })
	const byAgent = "metadata.level: value must be 'info' (set by the agent web)"
	const byShop = "(set by the application shop)"
	refused("PutRecord", record.Create(wrong), byAgent)
	refused("PutRecord", record.Create(inShop), byShop)
	// What is missing may come from an environment or an instance.
	s.put(record.Create(web(func(a *agentv1.Agent) {
		a.Metadata = map[string]string{"log": value(t, `{"dir": "/var/log"}`)}
	})))
	refused("PutRecord", record.Change(wrong), byAgent)
	refused("PutRecord", record.Change(inShop), byShop)
}

func TestASchemaThatChangesNamesWhatIsOutdated(t *testing.T) {
	t.Parallel()
	s, web := webShop(t)
	bad := configure("web", map[string]string{"level": "x"}, on("one"))
	r := s.outcome(s.publish(topology.VerbConfigure, bad)).Refusal
	if r.GetCode() != "SCHEMA_MISMATCH" || !strings.Contains(r.GetMessage(), "(set by the instance)") {
		t.Errorf("own values: %v", r)
	}
	s.accepted(topology.VerbConfigure, configure("web", map[string]string{"level": "debug"}, on("one")))

	// Now a schema comes that only the own value of one breaks: it is left out and named, and the others go on.
	web.Schema = `{"properties": {"level": {"const": "info"}}}`
	changed := s.put(record.Change(web))
	if len(changed.Outdated) != 1 || changed.Outdated[0].Instances != 0 || changed.Outdated[0].LeftOut != 1 ||
		changed.Outdated[0].First.GetCode() != "SCHEMA_MISMATCH" {
		t.Errorf("outdated: %v", changed.Outdated)
	}
	shop := s.put(record.Change(&applicationv1.Application{Name: "shop", Metadata: map[string]string{"level": "info"}}))
	if got := shop.Outdated; len(got) != 1 || got[0].Agent != "web" || got[0].Instances != 2 || got[0].LeftOut != 1 {
		t.Errorf("outdated: %v", got)
	}
	env := s.put(prod(map[string]string{"a": "b"}))
	if got := env.Outdated; len(got) != 1 || got[0].Instances != 1 || got[0].LeftOut != 0 {
		t.Errorf("outdated in prod: %v", got)
	}
	a := s.accepted(topology.VerbConfigure, configure("web", nil, on("one", "two", "three")))
	if a.Changed != 2 || a.LeftOut != 1 || a.Reasons[0].Code != "SCHEMA_MISMATCH" {
		t.Errorf("accepted %v", a)
	}
	again := s.put(record.Change(&applicationv1.Application{
		Name: "shop", Description: "of shops", Metadata: shop.Record.GetApplication().Metadata,
	}))
	if len(again.Outdated) > 0 {
		t.Error("a description changes no configuration:", again.Outdated)
	}
}
