package registry

import (
	intentv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/intent/v1"
	rolloutv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/rollout/v1"
)

func both() *intentv1.Intent {
	in := waves(&rolloutv1.Strategy{})
	in.GetRollout().Steps = append(in.GetRollout().Steps, &intentv1.Step{
		Change: &intentv1.Step_Upgrade{Upgrade: &intentv1.Upgrade{Agent: "db"}},
	})
	return in
}

func (s *site) serverIDs() (ids []string) {
	s.r.follower.Read(func() {
		for server := range s.r.records.View.AllServers() {
			ids = append(ids, server.Id)
		}
	})
	return ids
}
