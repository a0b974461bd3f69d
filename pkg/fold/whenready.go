package fold

import "context"

// WhenReady returns a part of a service that waits for the view before it calls run. It returns nil
// without calling run when ctx is done first.
func (f *Follower) WhenReady(run func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		select {
		case <-f.Ready():
			return run(ctx)
		case <-ctx.Done():
			return nil
		}
	}
}
