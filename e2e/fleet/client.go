package fleet

import (
	"context"
	"time"

	"github.com/garrison-fleet/garrison/pkg/client"
	"github.com/garrison-fleet/garrison/pkg/trust"
)

// Client connects as the first operator. A call may take up to timeout; 0 means the default of package client. The
// caller closes the client.
func (f *Fleet) Client(ctx context.Context, timeout time.Duration) (*client.Client, error) {
	who, err := trust.ReadContext(f.ContextFile())
	if err != nil {
		return nil, err
	}
	return client.Connect(ctx, client.Options{Context: who, Timeout: timeout})
}
