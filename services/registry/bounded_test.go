package registry

import (
	"context"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/garrison-fleet/garrison/pkg/bounds"
	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/ident"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/page"
	"github.com/garrison-fleet/garrison/pkg/polltest"
	"github.com/garrison-fleet/garrison/pkg/topology"
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
)

// largeSysinfo returns a sysinfo of about 600 KB.
func largeSysinfo() *serverv1.Sysinfo {
	s := &serverv1.Sysinfo{
		Platform: &serverv1.Platform{Os: "linux", Arch: "amd64"}, Kernel: strings.Repeat("k", 200_000),
	}
	for range 1000 {
		s.Addresses = append(s.Addresses, strings.Repeat("a", 400))
	}
	return s
}

// largest returns the size of the largest fact about a key.
func (s *site) largest(noun ledger.Noun, key string) (most int) {
	s.t.Helper()
	for _, f := range s.facts(noun, key) {
		most = max(most, proto.Size(f.Body))
	}
	return most
}

func TestAnEnrolmentIsCutBeforeItBecomesAFact(t *testing.T) {
	t.Parallel()
	s := start(t)
	token := s.invite("one")
	subject := topology.EnrolSubject(topology.ServerAddress{Cell: token.Cell, Server: token.ServerID})
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	_, err := bus.Ask[*registryv1.EnrolResponse](ctx, s.ops, subject, &registryv1.EnrolRequest{
		ServerId: token.ServerID, Secret: token.Secret, PublicKey: "key", Sysinfo: largeSysinfo(),
	})
	if err != nil {
		t.Fatal(err)
	}
	if size := s.largest(ledger.Server, token.ServerID); size > bounds.SysinfoBytes+500 {
		t.Errorf("the enrolment is a fact of %d bytes", size)
	}
	info := s.get(token.ServerID).Sysinfo
	if len(info.Addresses)+int(info.AddressesMore) != 1000 {
		t.Errorf("%d addresses and %d more; want 1,000", len(info.Addresses), info.AddressesMore)
	}
}

func TestAnOverlongBeatIsIgnoredAndALongBootIsCut(t *testing.T) {
	t.Parallel()
	s := start(t)
	id := s.server("one")
	polltest.Eventually(t, "it is online", func() bool {
		s.beat(id, strings.Repeat("b", 900_000))
		s.beat(id, strings.Repeat("b", 2_000))
		return s.get(id).Presence == serverv1.Presence_PRESENCE_ONLINE
	})
	if boot := s.get(id).BootId; len(boot) > bounds.ID || !strings.HasSuffix(boot, "…") {
		t.Errorf("its boot has %d bytes: %.80s", len(boot), boot)
	}
}

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
