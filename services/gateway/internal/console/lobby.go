package console

import (
	registryv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/registry/v1"

	"github.com/garrison-fleet/garrison/pkg/client"
	"github.com/garrison-fleet/garrison/pkg/display"
)

// lobbyPage lists machines that ask to join without a token.
func lobbyPage(v *visit) (*page, error) {
	r, err := client.Call[*registryv1.ListLobbyResponse](v.Context(), v.client,
		&registryv1.ListLobbyRequest{Page: v.part()})
	if err != nil {
		return nil, err
	}
	t := tableOf(v, display.Lobby, r.GetWaiting(), nil)
	lobby := part{ID: "lobby", Table: t.next(v, r.GetNextCursor())}
	switch {
	case !r.GetOpen():
		lobby.Note = "The lobby is closed; it opens with garrisond --lobby."
	case r.GetOverflowed():
		lobby.Note = "More machines ask than the lobby holds; those that ask again come back."
	}
	p := &page{Title: "Lobby", Command: "garrison server list --lobby", Parts: []part{lobby}}
	if len(r.GetWaiting()) > 0 {
		v.offer(p, "Answer a machine", nil, "accept", "reject")
	}
	return p, nil
}
