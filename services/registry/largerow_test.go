package registry

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/page"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
)

// A ledger may hold larger facts than this registry writes.
func TestALargeServerIsNamedAndAllOthersAreListed(t *testing.T) {
	t.Parallel()
	s := start(t)
	one, two := s.server("one"), s.server("two")
	large := ident.New()
	s.append(
		fact(ledger.Server, large, &serverv1.Invited{Name: "large", Cell: "main", ExpiresAt: timestamppb.Now()}),
		fact(ledger.Server, large, &serverv1.Enrolled{
			PublicKey: "key", Sysinfo: &serverv1.Sysinfo{Kernel: strings.Repeat("k", page.Bytes)},
		}),
	)
	resp := must[*registryv1.ListServersResponse](s, "ListServers", &registryv1.ListServersRequest{})
	listed := map[string]bool{}
	for _, row := range resp.Servers {
		listed[row.Id] = true
	}
	if len(listed) != 2 || !listed[one] || !listed[two] {
		t.Errorf("listed %v, want %s and %s", listed, one, two)
	}
	if l := resp.LeftOut; len(l) != 1 || l[0].Id != large || l[0].SizeBytes <= page.Bytes {
		t.Errorf("left out %v, want %s", l, large)
	}
}
