package kafkaio

import (
	"flag"
	"fmt"
	"os"
	"testing"
)

// parallel is how many tests run at once, whatever the processors: they wait for
// brokers, time-outs and each other's intervals, and a quarter of a processor does for
// one of them.
const parallel = 8

func TestMain(m *testing.M) {
	flag.Parse()
	asked := false
	flag.Visit(func(f *flag.Flag) { asked = asked || f.Name == "test.parallel" })
	if !asked {
		if err := flag.Set("test.parallel", fmt.Sprint(parallel)); err != nil {
			panic(err)
		}
	}
	os.Exit(m.Run())
}
