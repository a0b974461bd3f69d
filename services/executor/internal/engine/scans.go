package engine

import (
	"context"

	desiredv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/desired/v1"
	reportv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/report/v1"
	serverv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/server/v1"
	taskv1 "github.com/garrison-fleet/garrison/proto/gen/garrison/task/v1"

	"github.com/garrison-fleet/garrison/services/executor/internal/detect"
	"github.com/garrison-fleet/garrison/services/executor/internal/journal"
	"github.com/garrison-fleet/garrison/services/executor/internal/steps"
	"github.com/garrison-fleet/garrison/services/executor/internal/supervise"
)

func isScan(q *desiredv1.Request) bool { return q.GetScan() != nil }

// answerScan returns what scans the server for the candidates of a request.
func answerScan(cfg Config, reports *reporter) func(context.Context, *desiredv1.Request) reply {
	scan := newScan(cfg)
	return func(ctx context.Context, q *desiredv1.Request) reply {
		found, failure := scan(ctx, q.GetScan())
		return func(tx *journal.Tx) (taskv1.State, *taskv1.Outcome, error) {
			if failure != nil {
				return taskv1.State_STATE_FAILED, failed(steps.Failure(taskv1.Step_STEP_CHECK, failure)), nil
			}
			listed, err := detect.Listed(found.GetCandidates())
			if err != nil {
				return taskv1.State_STATE_FAILED, nil, err
			}
			out := reports.report()
			found.TaskId = q.GetTaskId()
			out.Body = &reportv1.Report_Candidates{Candidates: found}
			return taskv1.State_STATE_SUCCEEDED, &taskv1.Outcome{Listed: listed}, tx.Say(out)
		}
	}
}

// newScan returns what scans the server of an engine.
func newScan(cfg Config) func(context.Context, *serverv1.Scan) (*reportv1.CandidatesReport, error) {
	return func(ctx context.Context, asked *serverv1.Scan) (*reportv1.CandidatesReport, error) {
		in, err := cfg.Journal.Inventory()
		if err != nil {
			return nil, err
		}
		ours, services := map[int]bool{}, map[string]bool{}
		for _, i := range in.Instances {
			if supervise.Lives(i.Adopted) {
				ours[i.Adopted.Pid] = true
			}
			if service := i.Adopted.ServiceName(); service != "" {
				services[service] = true
			}
			for _, pid := range cfg.Supervisor.Members(i.Agent) {
				ours[pid] = true
			}
		}
		return detect.Run(ctx, detect.Config{
			Home: string(cfg.Root), Programs: cfg.Root.Detectors(), Units: "garrison-",
			Ours: func(pid int) bool { return ours[pid] || services[detect.ServiceOf(pid)] },
		}, asked)
	}
}
