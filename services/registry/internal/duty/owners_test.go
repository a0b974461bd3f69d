package duty

import (
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/garrison-fleet/garrison/pkg/ledger"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
)

// Every duty at the end of a server has an owner who does it. A duty that goes, whose number is reserved then, keeps
// its row in the table, which names who does now what it did.
func TestEveryDutyHasAnOwnerAlsoOneThatWent(t *testing.T) {
	page, err := os.ReadFile("../../docs/servers.md")
	if err != nil {
		t.Fatal(err)
	}
	known := []string{ledger.Registry, ledger.Dispatcher, "executor", "operator"}
	owners := map[protoreflect.EnumNumber]string{}
	row := regexp.MustCompile("(?m)^\\| (\\d+) \\| `([A-Z_]+)` \\| ([a-z-]+) \\|")
	for _, m := range row.FindAllStringSubmatch(string(page), -1) {
		n, err := strconv.Atoi(m[1])
		if err != nil || !slices.Contains(known, m[3]) {
			t.Errorf("duty %s has the owner %q, want one of %s", m[2], m[3], strings.Join(known, ", "))
		}
		owners[protoreflect.EnumNumber(n)] = m[2]
	}
	d := serverv1.DutyKind(0).Descriptor()
	for i := range d.Values().Len() {
		v := d.Values().Get(i)
		name := strings.TrimPrefix(string(v.Name()), "DUTY_KIND_")
		if v.Number() != 0 && owners[v.Number()] != name {
			t.Errorf("docs/servers.md has no row for duty %d, %s, with its owner", v.Number(), name)
		}
	}
	for i := range d.ReservedRanges().Len() {
		for gone := d.ReservedRanges().Get(i); gone[0] <= gone[1]; gone[0]++ {
			if owners[gone[0]] == "" {
				t.Errorf("duty %d went, and docs/servers.md does not name who does now what it did", gone[0])
			}
		}
	}
}
