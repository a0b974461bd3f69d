package triton_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"

	agentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/agent/v1"
	applicationv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/application/v1"
	environmentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/environment/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/pkg/fault"

	"github.com/garrison-fleet/garrison/services/operator/internal/declare"
	"github.com/garrison-fleet/garrison/services/operator/internal/triton"
)

// A small data centre: an application with two agents and a service of virtual machines, and two servers.
const (
	sapi = `HTTP/1.1 200 OK
Content-Type: application/json

[{"uuid": "a0000000-0000-4000-8000-000000000001", "name": "dc", "owner_uuid": "b0",
  "metadata": {"REGION": "eu", "ports": [80, 443], "root_pw": "x", "bad-key": 1, "deep": {"api_key": "y"}}}]
`
	services = `{"uuid": "a0000000-0000-4000-8000-000000000002", "name": "agents_core", "type": "agent",
 "application_uuid": "a0000000-0000-4000-8000-000000000001"}
{"uuid": "a0000000-0000-4000-8000-000000000003", "name": "net_agent", "type": "agent",
 "application_uuid": "a0000000-0000-4000-8000-000000000001", "manifests": {"config": "c0"},
 "params": {"image_uuid": "c0000000-0000-4000-8000-000000000001", "tags": {"role": "net"}}}
{"uuid": "a0000000-0000-4000-8000-000000000004", "name": "api", "type": "vm",
 "application_uuid": "a0000000-0000-4000-8000-000000000001"}
{"uuid": "a0000000-0000-4000-8000-000000000005", "name": "Odd Name", "type": "agent", "application_uuid": "other"}
`
	servers = `{"servers": [{"uuid": "44454C4C-0000-1010-8000-B4C04F5A4532", "hostname": "CN1", "datacenter": "eu-1",
  "headnode": false, "setup": true, "traits": {"ssd": true, "owners": ["ann", "bob"], "no good": 1},
  "sysinfo": {"System Type": "SunOS", "Manufacturer": "Acme", "Network Interfaces": {
    "ixgbe0": {"NIC Names": ["admin"]}, "ixgbe1": {"NIC Names": []}}},
  "agents": [{"name": "net_agent", "version": "0.1.0-master-20200102T030405Z-gabc",
    "image_uuid": "c0000000-0000-4000-8000-000000000001"}, {"name": "old", "version": "1"}]},
 {"uuid": "default", "boot_platform": "x"}]}`
	machine = `{"UUID": "44454c4c-0000-1010-8000-b4c04f5a4533", "Hostname": "CN2", "System Type": "SunOS",
 "Setup": "true", "Boot Parameters": {"headnode": "true"}, "SDC Agents": [{"name": "net_agent", "version": "0.0.9"}]}`
	manifests = `{"v": 2, "uuid": "c0000000-0000-4000-8000-000000000001", "name": "net_agent", "type": "other",
 "version": "0.1.0-master-20200102T030405Z-gabc", "os": "other"}`
)

func files(pairs ...string) (out []declare.File) {
	for i := 0; i < len(pairs); i += 2 {
		out = append(out, declare.File{Name: pairs[i], Data: []byte(pairs[i+1])})
	}
	return out
}

func dump() []declare.File {
	return files("sapi.json", sapi, "services.jsonl", services, "cnapi.json", servers, "cn2.json", machine,
		"images/net.imgmanifest", manifests)
}

func objects(t *testing.T, in []declare.File, o triton.Options) triton.Result {
	t.Helper()
	d, err := triton.Read(in)
	if err != nil {
		t.Fatal(err)
	}
	o.Owner = "triton"
	r, err := d.Objects(o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func record[T proto.Message](t *testing.T, r triton.Result, k *declare.Kind, name string) (out T) {
	t.Helper()
	for _, o := range r.Set.Objects {
		if o.Kind == k && o.Name == name {
			return o.Record.(T)
		}
	}
	t.Fatalf("no %s %s", k.Word, name)
	return out
}

// reasons returns what is left out of a kind, by name and reason.
func reasons(r triton.Result) string {
	var out []string
	for _, s := range r.Skipped {
		out = append(out, s.Kind+" "+s.Name+": "+s.Reason)
	}
	return strings.Join(out, "\n")
}

func TestADumpBecomesObjectsWithTheirUUIDsAndNames(t *testing.T) {
	r := objects(t, dump(), triton.Options{Environment: "prod"})
	app := record[*applicationv1.Application](t, r, declare.Applications, "dc")
	if app.Origin != "triton:a0000000-0000-4000-8000-000000000001" {
		t.Errorf("origin %s", app.Origin)
	}
	want := map[string]string{"REGION": "eu", "ports": "garrison:json:1:[80,443]"}
	if diff := cmp.Diff(want, app.Metadata); diff != "" {
		t.Error(diff)
	}
	core := record[*agentv1.Agent](t, r, declare.Agents, "agents_core")
	if core.Kind != agentv1.Kind_KIND_FILES || core.Application != "dc" {
		t.Errorf("%v", core)
	}
	net := record[*agentv1.Agent](t, r, declare.Agents, "net_agent")
	if net.Kind != agentv1.Kind_KIND_DAEMON || net.Metadata["params"] != `garrison:json:1:{"tags":{"role":"net"}}` {
		t.Errorf("%v", net)
	}
	cn1 := record[*serverv1.Server](t, r, declare.Servers, "CN1")
	if cn1.Id != "44454c4c-0000-1010-8000-b4c04f5a4532" || cn1.Environment != "prod" {
		t.Errorf("%v", cn1)
	}
	want = map[string]string{
		"datacenter": "eu-1", "system": "SunOS", "manufacturer": "Acme", "setup": "true", "trait.ssd": "true",
		"trait.owners.ann": "true", "trait.owners.bob": "true", "nic.admin": "ixgbe0",
	}
	if diff := cmp.Diff(want, cn1.Labels); diff != "" {
		t.Error(diff)
	}
	cn2 := record[*serverv1.Server](t, r, declare.Servers, "CN2")
	want = map[string]string{"system": "SunOS", "setup": "true", "headnode": "true"}
	if diff := cmp.Diff(want, cn2.Labels); diff != "" {
		t.Error(diff)
	}
}

func TestWhatDoesNotFitIsListedWithItsReason(t *testing.T) {
	got := reasons(objects(t, append(dump(), files(
		"tasks.json", `[{"task": "t", "server_uuid": "u", "status": "complete"}, {"task": "t", "server_uuid": "u",
			"status": "failure"}]`,
		"bundle.json", `["a/b", "c/d"]`, "entries.json", `{"agents": [{"name": "x", "version": "1"}]}`,
		"template.json", `{"name": "n", "path": "/etc/x", "template": "{}"}`,
		"odd.json", `{"path": "/x", "content": "y"}`,
		"dup.json", `{"uuid": "a0000000-0000-4000-8000-000000000001", "name": "dd", "owner_uuid": "b0"}`,
	)...), triton.Options{}))
	for _, want := range []string{
		"application dc: metadata root_pw: it is or holds a secret",
		"application dc: metadata deep: it is or holds a secret",
		"application dc: metadata bad-key: ",
		"application a0000000-0000-4000-8000-000000000001: dup.json has another object with this UUID than sapi.json",
		"agent net_agent: 1 manifests: a template",
		"service api: a service of virtual machines",
		"agent Odd Name: UUID a0000000-0000-4000-8000-000000000005: ",
		"agent old: on 1 server, and no service",
		"server CN1: label trait.no good: ",
		"server : \"default\" is no UUID",
		"image net_agent@0.1.0-master-20200102T030405Z-gabc: UUID c0000000-0000-4000-8000-000000000001: no content",
		"task tasks.json: 2 times: a task of the past",
		"unknown bundle.json: 2 times: a value, not an object",
		"entry entries.json: an agent without the server",
		"template template.json: a template",
		"unknown odd.json: an object with the keys content, path",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("the reasons lack %q:\n%s", want, got)
		}
	}
}

func TestTheOrderOfTheFilesDoesNotMatter(t *testing.T) {
	in := dump()
	first := objects(t, in, triton.Options{})
	slices.Reverse(in)
	second := objects(t, in, triton.Options{})
	for _, k := range declare.Kinds {
		var a, b []string
		for _, o := range first.Set.Objects {
			if o.Kind == k {
				a = append(a, o.Name+" "+o.Record.(interface{ String() string }).String())
			}
		}
		for _, o := range second.Set.Objects {
			if o.Kind == k {
				b = append(b, o.Name+" "+o.Record.(interface{ String() string }).String())
			}
		}
		if len(a) != len(b) {
			t.Errorf("%s: %d and %d", k.Section, len(a), len(b))
		}
	}
	if a, b := reasons(first), reasons(second); a != b {
		t.Errorf("%s\nthen\n%s", a, b)
	}
}

func TestASecondImportChangesNothing(t *testing.T) {
	live := declare.Live{}
	for range 2 {
		r := objects(t, dump(), triton.Options{Environment: "prod", Live: live})
		plan := declare.Compare(r.Set, live, declare.Options{Keep: true})
		if len(live) > 0 && len(plan.Changes) > 0 {
			t.Fatalf("the second import changes %+v", plan.Changes)
		}
		for _, c := range plan.Changes {
			if live[c.Kind] == nil {
				live[c.Kind] = map[string]proto.Message{}
			}
			live[c.Kind][c.Name] = c.Next
		}
	}
	// A server that was renamed here is known by its UUID; another server with the name is left alone.
	live[declare.Servers]["renamed"] = live[declare.Servers]["CN1"]
	live[declare.Servers]["CN1"] = &serverv1.Server{Id: "44454c4c-0000-1010-8000-b4c04f5a4599"}
	live[declare.Servers]["CN2"].(*serverv1.Server).Id = "44454c4c-0000-1010-8000-b4c04f5a4598"
	r := objects(t, dump(), triton.Options{Environment: "prod", Live: live})
	const taken = "server CN2: UUID 44454c4c-0000-1010-8000-b4c04f5a4533: the name is taken"
	if got := reasons(r); !strings.Contains(got, taken) {
		t.Error(got)
	}
	if plan := declare.Compare(r.Set, live, declare.Options{Keep: true}); len(plan.Changes) > 0 {
		t.Errorf("%+v", plan.Changes)
	}
}

func TestWhatIsWantedBecomesDefaultsWhereTheCatalogHasTheImage(t *testing.T) {
	const v = "0.1.0-master-20200102T030405Z-gabc"
	has := []string{v}
	o := triton.Options{
		Environment: "prod", Reporter: "ann", Undeclared: true,
		Catalog: func(string) ([]string, error) { return has, nil },
	}
	r := objects(t, dump(), o)
	want := []triton.Wanted{{"net_agent", v, 1}, {"net_agent", "0.0.9", 1}, {"old", "1", 1}}
	if diff := cmp.Diff(want, r.Wanted); diff != "" {
		t.Error(diff)
	}
	d := record[*environmentv1.Default](t, r, declare.Defaults, "prod/net_agent")
	if d.Image.GetVersion() != v || d.Reach != environmentv1.Reach_REACH_NEW {
		t.Errorf("%v", d)
	}
	if old := record[*agentv1.Agent](t, r, declare.Agents, "old"); old.Kind != agentv1.Kind_KIND_DAEMON {
		t.Errorf("%v", old)
	}
	if api := record[*agentv1.Agent](t, r, declare.Agents, "api"); api.Kind != agentv1.Kind_KIND_EXTERNAL ||
		api.Reporter != "ann" {
		t.Errorf("%v", api)
	}
	has = nil
	const missing = "default prod/net_agent: the catalog has no image"
	if got := reasons(objects(t, dump(), o)); !strings.Contains(got, missing) {
		t.Error(got)
	}
}

// What a server says of itself counts; an instance of SAPI counts where the dump has no list of its server.
func TestWhatRunsOnAServerIsWhatItSaysAndElseWhatSAPISays(t *testing.T) {
	const (
		cn1, cn2, gone = "44454c4c-0000-1010-8000-b4c04f5a4532", "44454c4c-0000-1010-8000-b4c04f5a4533",
			"44454c4c-0000-1010-8000-b4c04f5a4534"
		net, core = "a0000000-0000-4000-8000-000000000003", "a0000000-0000-4000-8000-000000000002"
		image     = "c0000000-0000-4000-8000-000000000001"
		v         = "0.1.0-master-20200102T030405Z-gabc"
	)
	at := func(id, service, server, image string) string {
		return fmt.Sprintf(`{"uuid": "d0000000-0000-4000-8000-%012s", "service_uuid": %q, "type": "agent",
			"params": {"server_uuid": %q, "image_uuid": %q}}`, id, service, server, image)
	}
	d := append(dump(), files("instances.jsonl", strings.Join([]string{
		at("1", net, cn1, ""), at("2", core, cn2, image), at("3", net, gone, image), at("4", core, gone, ""),
		at("5", net, "", image), `{"uuid": "d0000000-0000-4000-8000-000000000006", "service_uuid": "x", "type": "vm"}`,
	}, "\n"))...)
	r := objects(t, d, triton.Options{})
	want := []triton.Placed{
		{Server: gone, Agent: "agents_core", UUID: "d0000000-0000-4000-8000-000000000004"},
		{Server: cn1, Agent: "net_agent", Version: v, UUID: "d0000000-0000-4000-8000-000000000001"},
		{Server: cn2, Agent: "net_agent", Version: "0.0.9"},
		{Server: gone, Agent: "net_agent", Version: v, UUID: "d0000000-0000-4000-8000-000000000003"},
	}
	if diff := cmp.Diff(want, r.Placed); diff != "" {
		t.Error(diff)
	}
	got := reasons(r)
	for _, want := range []string{
		"instance d0000000-0000-4000-8000-000000000002: an instance of agents_core on server " + cn2 +
			", whose own list",
		"instance d0000000-0000-4000-8000-000000000005: an instance of net_agent that does not say on which server",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("the reasons lack %q:\n%s", want, got)
		}
	}
}

func TestContentBesideAManifestIsFound(t *testing.T) {
	for file, want := range map[string]string{
		"images/net.gimg": "imported",
		"images/c0000000-0000-4000-8000-000000000001.gimg": "imported",
		"images/net.tar.gz":   "images/net.tar.gz is no image of Garrison",
		"elsewhere/net.gimg":  "no content beside images/net.imgmanifest",
		"images/net.imgother": "no content beside",
	} {
		r := objects(t, dump(), triton.Options{Files: []string{file}})
		if len(r.Images) == 1 && (want != "imported" || r.Images[0].File != file) ||
			len(r.Images) == 0 && !strings.Contains(reasons(r), want) {
			t.Errorf("%s: %v\n%s", file, r.Images, reasons(r))
		}
	}
}

func TestAFileThatIsNoJSONIsRefused(t *testing.T) {
	for name, text := range map[string]string{"a cut file": `[{"uuid": "a`, "a page": "<html>", "two": `{} {`} {
		if _, err := triton.Read(files("x.json", text)); !fault.Is(err, fault.Invalid) ||
			!strings.Contains(err.Error(), "x.json") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func FuzzRead(f *testing.F) {
	for _, file := range dump() {
		f.Add(string(file.Data))
	}
	f.Fuzz(func(t *testing.T, text string) {
		d, err := triton.Read(files("x.json", text))
		if err != nil {
			return
		}
		if _, err := d.Objects(triton.Options{Owner: "triton", Environment: "prod"}); err != nil {
			t.Error(err)
		}
	})
}

// The metadata of a SAPI instance, and its params but for server and image, are own values of the instance; a secret is
// left out.
func TestTheMetadataOfAnInstanceBecomesItsOwnValues(t *testing.T) {
	r := objects(t, append(dump(), files("instances.json", `[{"uuid": "d0000000-0000-4000-8000-000000000001",
		"service_uuid": "a0000000-0000-4000-8000-000000000003", "type": "agent",
		"metadata": {"role": "head", "ports": [1], "api_key": "x"}, "params": {"tags": {"a": "b"},
		"image_uuid": "c0000000-0000-4000-8000-000000000001", "server_uuid": "44454c4c-0000-1010-8000-b4c04f5a4532"}},
		{"uuid": "d0000000-0000-4000-8000-000000000002", "service_uuid": "a0000000-0000-4000-8000-000000000003",
		"type": "agent", "params": {"server_uuid": "44454c4c-0000-1010-8000-b4c04f5a4533"}}]`)...), triton.Options{})
	own := map[string]map[string]string{}
	for _, p := range r.Placed {
		own[p.UUID] = p.Own
	}
	want := map[string]map[string]string{
		"d0000000-0000-4000-8000-000000000001": {
			"role": "head", "ports": "garrison:json:1:[1]", "params": `garrison:json:1:{"tags":{"a":"b"}}`,
		},
		"d0000000-0000-4000-8000-000000000002": nil,
	}
	if diff := cmp.Diff(want, own); diff != "" {
		t.Error(diff)
	}
	if !strings.Contains(reasons(r), "instance d0000000-0000-4000-8000-000000000001: metadata api_key: ") {
		t.Error(reasons(r))
	}
}
