package client_test

import (
	"fmt"
	"strconv"
	"testing"

	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"

	"github.com/garrison-fleet/garrison/pkg/bustest"
	"github.com/garrison-fleet/garrison/pkg/client"
	"github.com/garrison-fleet/garrison/pkg/fault"
	"github.com/garrison-fleet/garrison/pkg/ledger"
)

// listServers answers with n servers in parts, and counts the parts.
func listServers(t testing.TB, b *bustest.Bus, n int) (parts *int) {
	t.Helper()
	parts = new(int)
	answer(t, serve(t, b, ledger.Registry), "ListServers",
		func(q *registryv1.ListServersRequest) (*registryv1.ListServersResponse, error) {
			*parts++
			r := &registryv1.ListServersResponse{}
			from := 0
			if c := q.GetPage().GetCursor(); c != "" {
				from, _ = strconv.Atoi(c)
			}
			to := min(n, from+int(q.GetPage().GetLimit()))
			for i := from; i < to; i++ {
				r.Servers = append(r.Servers, &serverv1.Server{Name: fmt.Sprintf("web-%d", i)})
			}
			if to < n {
				r.NextCursor = strconv.Itoa(to)
			}
			return r, nil
		})
	return parts
}

func TestAnIteratorYieldsEachRowOnceAndAsksForPartsAsItGoes(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	parts := listServers(t, b, 2500)
	c := connect(t, b)
	n := 0
	for s, err := range c.Servers(within(t), nil) {
		if want := fmt.Sprintf("web-%d", n); err != nil || s.GetName() != want {
			t.Fatalf("row %d is %s (%v), want %s", n, s.GetName(), err, want)
		}
		n++
	}
	if n != 2500 || *parts != 3 {
		t.Errorf("%d rows in %d parts, want 2500 in 3", n, *parts)
	}
	*parts = 0
	for range c.Servers(within(t), nil) {
		break
	}
	if *parts != 1 {
		t.Errorf("%d parts for one row, want 1", *parts)
	}
}

func TestAnErrorIsTheLastElementOfAnIterator(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	asked := 0
	answer(t, serve(t, b, ledger.Registry), "ListServers",
		func(*registryv1.ListServersRequest) (*registryv1.ListServersResponse, error) {
			if asked++; asked > 1 {
				return nil, fault.New(fault.Invalid, "enough")
			}
			return &registryv1.ListServersResponse{Servers: []*serverv1.Server{{}}, NextCursor: "1"}, nil
		})
	var rows, errs int
	for _, err := range connect(t, b).Servers(within(t), nil) {
		if err == nil {
			rows++
		} else if errs++; !fault.Is(err, fault.Invalid) {
			t.Error(err)
		}
	}
	if rows != 1 || errs != 1 {
		t.Errorf("%d rows and %d errors, want one of each", rows, errs)
	}
}

func TestCollectReadsUpToALimitAndContinuesAtItsCursor(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	listServers(t, b, 2500)
	c := connect(t, b)
	q := &registryv1.ListServersRequest{}
	first, err := client.Collect[*registryv1.ListServersResponse](within(t), c, q, 1200)
	if err != nil || len(first.GetServers()) != 1200 || first.GetNextCursor() != "1200" || q.GetPage() != nil {
		t.Fatalf("%d rows, cursor %q, request %v (%v); want 1200, 1200 and an unchanged request",
			len(first.GetServers()), first.GetNextCursor(), q, err)
	}
	q.Page = pageAt(first.GetNextCursor())
	rest, err := client.Collect[*registryv1.ListServersResponse](within(t), c, q, 0)
	if err != nil || len(rest.GetServers()) != 1300 || rest.GetNextCursor() != "" {
		t.Errorf("%d rows, cursor %q (%v); want 1300 and the end", len(rest.GetServers()), rest.GetNextCursor(), err)
	}
}

func TestAListThatRepeatsItsCursorEnds(t *testing.T) {
	t.Parallel()
	b := bustest.Start(t)
	answer(t, serve(t, b, ledger.Registry), "ListServers",
		func(*registryv1.ListServersRequest) (*registryv1.ListServersResponse, error) {
			return &registryv1.ListServersResponse{Servers: []*serverv1.Server{{}}, NextCursor: "same"}, nil
		})
	rows := 0
	for _, err := range connect(t, b).Servers(within(t), nil) {
		if rows++; err != nil || rows > 2 {
			t.Fatalf("row %d (%v), want the end after two", rows, err)
		}
	}
}
