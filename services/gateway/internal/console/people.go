package console

import (
	"strings"

	accessv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/access/v1"
	userv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/user/v1"

	"github.com/garrison-fleet/garrison/pkg/client"
	"github.com/garrison-fleet/garrison/pkg/display"
)

func peoplePage(v *visit) (*page, error) {
	r, err := client.Collect[*accessv1.ListUsersResponse](v.Context(), v.client, &accessv1.ListUsersRequest{}, 1000)
	if err != nil {
		return nil, err
	}
	t := tableOf(v, display.Users, r.GetUsers(), func(title string, u display.User) string {
		if title == "NAME" {
			return actorLink(u.GetName())
		}
		return ""
	})
	return &page{
		Title: "People", Command: "garrison user list", Parts: []part{{ID: "people", Table: t}},
	}, nil
}

// role returns the role of the user, and none when access does not say it. The bus decides in any case; the role only
// keeps a page from offering what would be refused.
func (v *visit) role() userv1.Role {
	r, err := client.Collect[*accessv1.ListUsersResponse](v.Context(), v.client, &accessv1.ListUsersRequest{}, 0)
	if err != nil {
		return userv1.Role_ROLE_UNSPECIFIED
	}
	for _, u := range r.GetUsers() {
		if u.GetName() == v.user {
			return u.GetRole()
		}
	}
	return userv1.Role_ROLE_UNSPECIFIED
}

// mayWrite reports whether a role lets changes begin.
func mayWrite(r userv1.Role) bool {
	return r == userv1.Role_ROLE_OPERATOR || r == userv1.Role_ROLE_ADMIN
}

// mayAnswer reports whether a role lets waves be approved.
func mayAnswer(r userv1.Role) bool { return mayWrite(r) || r == userv1.Role_ROLE_APPROVER }

func lines(all []string) string { return strings.Join(all, "\n") }
