package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/streamdedup/streamdedup/internal/kafkaio"
	"github.com/streamdedup/streamdedup/internal/state"
	"github.com/streamdedup/streamdedup/pipeline"
)

// version is set by release builds: -ldflags "-X main.version=v1.2.3".
var version string

func newVersionCmd(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version, the Go version and the format versions",
		Args:  noArgs,
		RunE: func(*cobra.Command, []string) error {
			_, err := fmt.Fprintf(a.stdout, "streamdedup %s\n%s %s/%s\nformats: metadata %d, route metadata %d, source header %d, changelog %d, checkpoint %d, export %d\n",
				buildVersion(), runtime.Version(), runtime.GOOS, runtime.GOARCH,
				pipeline.MetadataVersion, pipeline.RouteVersion, kafkaio.OriginVersion, pipeline.ChangeVersion, state.FormatVersion, exportVersion)
			return err
		},
	}
}

// buildVersion is the release's version, else what the build knows of its
// source, else "devel".
func buildVersion() string {
	if version != "" {
		return version
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "devel"
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		return v
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			return "devel " + s.Value
		}
	}
	return "devel"
}
