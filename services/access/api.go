package access

import (
	"context"
	"errors"

	accessv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/access/v1"

	"github.com/garrison-fleet/garrison/pkg/bus"
	"github.com/garrison-fleet/garrison/pkg/fold"
	"github.com/garrison-fleet/garrison/pkg/ledger"
	"github.com/garrison-fleet/garrison/pkg/logs"
	"github.com/garrison-fleet/garrison/pkg/version"
)

// serve answers requests until ctx is done.
func (a *Access) serve(ctx context.Context) error {
	if err := a.adopt(ctx); err != nil {
		return err
	}
	s, err := a.cfg.Conn.NewService(ledger.Access, version.Version,
		accessv1.File_garrison_access_v1_access_service_proto.Services().ByName("AccessService"))
	if err != nil {
		return err
	}
	defer s.Close()
	if err := a.handle(s); err != nil {
		return err
	}
	a.cfg.Log.Info().Uint64(logs.Sequence, a.follower.Position()).Msg("serving requests")
	close(a.serving)
	<-ctx.Done()
	return nil
}

func (a *Access) handle(s *bus.Service) error {
	return errors.Join(
		bus.Handle(s, "CreateUser", a.createUser),
		bus.Handle(s, "ListUsers", a.listUsers),
		bus.Handle(s, "RevokeUser", a.revokeUser),
		bus.Handle(s, "RenewSelf", a.renewSelf),
		bus.Handle(s, "ListSessions", a.listSessions),
		bus.Handle(s, "GetBus", a.getBus),
		fold.Serve(s, a.follower, version.Version),
		s.RefuseUnknown(),
	)
}
