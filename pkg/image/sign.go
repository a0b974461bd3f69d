package image

import (
	"context"

	imagev1 "github.com/garrison-fleet/garrison/proto/gen/garrison/image/v1"

	"github.com/garrison-fleet/garrison/pkg/seal"
)

// SignFile adds a signature to an image file, in its place. On any error the file is as it was.
func SignFile(ctx context.Context, path string, seed []byte) (*imagev1.Manifest, error) {
	f, err := Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	m := f.Manifest()
	if err := seal.Sign(m, seed); err != nil {
		return nil, err
	}
	return m, Write(ctx, path, m, func(_ context.Context, n int) ([]byte, error) { return f.Chunk(n) })
}
