package registry

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/garrison-fleet/garrison/pkg/noun/server"
	catalogv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/catalog/v1"
	dispatcherv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/dispatcher/v1"
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"

	"github.com/garrison-fleet/garrison/services/registry/internal/intent"
)

// reads matches methods that change nothing.
var reads = regexp.MustCompile("^(Get|List|Count|Plan|Check|Missing|Forecast|Replay|Seal|Open|Read|About|View)")

// A request that is added to the contract is either a read, or the page states what happens when it reaches many
// servers.
func TestThePageOfRolloutsHasEveryRequestThatChangesAnything(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../deploy/docs/rollouts.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, found := strings.Cut(string(page), "## What a request can reach")
	if !found || !strings.Contains(section, fmt.Sprintf("more than %d servers", intent.MostAtOnce)) {
		t.Fatalf("the page has no section on requests that reach more than %d servers", intent.MostAtOnce)
	}
	listed := map[string]bool{}
	for line := range strings.Lines(section) {
		if cells := strings.Split(line, "|"); len(cells) > 2 {
			for _, name := range regexp.MustCompile("`([A-Za-z]+)`").FindAllStringSubmatch(cells[1], -1) {
				listed[name[1]] = true
			}
		}
	}
	known := map[string]bool{}
	for name := range requests() {
		if known[name] = true; !listed[name] && !reads.MatchString(name) {
			t.Errorf("request %s is not in the table", name)
		}
	}
	for name := range listed {
		if !known[name] || reads.MatchString(name) {
			t.Errorf("the table has %s, which is no request that changes anything", name)
		}
	}
}

// requests returns the names of all methods of the services that decide what is wanted, and the verbs of intents.
func requests() map[string]bool {
	out := map[string]bool{}
	for _, file := range []protoreflect.FileDescriptor{
		registryv1.File_garrison_registry_v1_registry_service_proto,
		catalogv1.File_garrison_catalog_v1_catalog_service_proto,
		dispatcherv1.File_garrison_dispatcher_v1_dispatcher_service_proto,
	} {
		for n := range file.Services().Len() {
			methods := file.Services().Get(n).Methods()
			for m := range methods.Len() {
				out[string(methods.Get(m).Name())] = true
			}
		}
	}
	asks := (&intentv1.Intent{}).ProtoReflect().Descriptor().Oneofs().ByName("ask").Fields()
	for n := range asks.Len() {
		out[string(asks.Get(n).Name())] = true
	}
	return out
}

func TestTheDiagramInTheDocsIsTheTable(t *testing.T) {
	t.Parallel()
	const page = "docs/servers.md"
	data, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(data), "```mermaid\n")
	have, after, ok2 := strings.Cut(rest, "```")
	if !ok || !ok2 {
		t.Fatal("docs/servers.md has no diagram")
	}
	want := server.Life.Mermaid(server.Unknown)
	if have == want {
		return
	}
	if os.Getenv("UPDATE") != "" {
		if err := os.WriteFile(page, []byte(before+"```mermaid\n"+want+"```"+after), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	t.Errorf("the diagram is out of date; run the test with UPDATE=1:\n%s", cmp.Diff(have, want))
}
