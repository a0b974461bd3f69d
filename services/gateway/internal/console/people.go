package console

import (
	"slices"
	"strings"

	accessv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/access/v1"

	"github.com/garrison-fleet/garrison/pkg/display"
	"github.com/garrison-fleet/garrison/pkg/topology"
)

func peoplePage(v *visit) (*page, error) {
	q := &accessv1.ListUsersRequest{Page: v.part()}
	t, err := list(v, q, display.Users, (*accessv1.ListUsersResponse).GetUsers, links[display.User]{
		"NAME": func(u display.User) string { return actorLink(u.GetName()) },
	})
	return &page{Title: "People", Command: "garrison user list", Parts: []part{{ID: "people", Table: t}}}, err
}

// mayWrite reports whether the user's role may let changes begin. The bus decides in any case; the role only keeps a
// page from offering what would be refused.
func (v *visit) mayWrite() bool {
	return !slices.Contains([]topology.Role{topology.Viewer, topology.Approver, topology.Reporter}, v.role)
}

// mayAnswer reports whether the user's role lets waves be approved.
func (v *visit) mayAnswer() bool { return v.mayWrite() || v.role == topology.Approver }

func lines(all []string) string { return strings.Join(all, "\n") }
