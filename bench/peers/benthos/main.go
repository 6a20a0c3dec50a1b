// Command benthos is Benthos with no more than the comparison needs: files, the
// dedupe processor and its memory cache. It is a module of its own for the sake of
// who tests the others.
package main

import (
	"context"

	_ "github.com/redpanda-data/benthos/v4/public/components/io"   // files
	_ "github.com/redpanda-data/benthos/v4/public/components/pure" // dedupe
	"github.com/redpanda-data/benthos/v4/public/service"
)

func main() { service.RunCLI(context.Background()) }
