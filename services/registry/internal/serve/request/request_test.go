package request

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"

	ownerv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/owner/v1"
)

func TestAnOwnerReplacesOnlyWhatItDeclaredItself(t *testing.T) {
	t.Parallel()
	of := func(name, field string) *ownerv1.FieldOwner {
		return &ownerv1.FieldOwner{Name: name, Fields: map[string]uint64{field: 1}}
	}
	have := []*ownerv1.FieldOwner{of("site", "labels.a"), of("team", "labels.b")}
	for name, c := range map[string]struct {
		next *ownerv1.FieldOwner
		want []*ownerv1.FieldOwner
	}{
		"no owner":          {nil, have},
		"it declares more":  {of("site", "labels.c"), []*ownerv1.FieldOwner{of("site", "labels.c"), have[1]}},
		"it declares none":  {&ownerv1.FieldOwner{Name: "site"}, have[1:]},
		"another comes in":  {of("apps", "labels.c"), []*ownerv1.FieldOwner{of("apps", "labels.c"), have[0], have[1]}},
		"another with none": {&ownerv1.FieldOwner{Name: "apps"}, have},
	} {
		if diff := cmp.Diff(c.want, WithOwner(have, c.next), protocmp.Transform()); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}
