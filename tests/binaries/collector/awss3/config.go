// Package awss3 stands in for the collector's awss3 exporter, whose module can't be had from every Go module proxy.
//
// It takes the settings that collector-config uses, under the names of the published exporter, and refuses all others.
// It writes the same objects under the same keys: one TracesData as OTLP/JSON an object. Queue, batches, retries and
// the queue's storage are not its own: they are the collector's exporter helper, as in the published exporter.
package awss3

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/config/configcompression"
	"go.opentelemetry.io/collector/config/configoptional"
	"go.opentelemetry.io/collector/config/configretry"
	"go.opentelemetry.io/collector/exporter/exporterhelper"
)

// Config is what stands below the exporter's name.
type Config struct {
	Timeout   exporterhelper.TimeoutConfig                             `mapstructure:",squash"`
	Queue     configoptional.Optional[exporterhelper.QueueBatchConfig] `mapstructure:"sending_queue"`
	Retry     configretry.BackOffConfig                                `mapstructure:"retry_on_failure"`
	Uploader  Uploader                                                 `mapstructure:"s3uploader"`
	Marshaler string                                                   `mapstructure:"marshaler"`
}

// Uploader says where objects go, and under which keys.
type Uploader struct {
	Region            string                 `mapstructure:"region"`
	Bucket            string                 `mapstructure:"s3_bucket"`
	Prefix            string                 `mapstructure:"s3_prefix"`
	PartitionFormat   string                 `mapstructure:"s3_partition_format"`
	PartitionTimezone string                 `mapstructure:"s3_partition_timezone"`
	Endpoint          string                 `mapstructure:"endpoint"`
	ForcePathStyle    bool                   `mapstructure:"s3_force_path_style"`
	Compression       configcompression.Type `mapstructure:"compression"`
	UniqueKeyFuncName string                 `mapstructure:"unique_key_func_name"`
}

// directives are those of strftime that a partition may have here, in the words of Go's own layouts.
var directives = strings.NewReplacer("%Y", "2006", "%m", "01", "%d", "02", "%H", "15", "%M", "04")

func defaults() component.Config {
	return &Config{
		Timeout:   exporterhelper.NewDefaultTimeoutConfig(),
		Queue:     configoptional.Default(exporterhelper.NewDefaultQueueConfig()),
		Retry:     configretry.NewDefaultBackOffConfig(),
		Marshaler: "otlp_json",
		Uploader: Uploader{
			Region:          "us-east-1",
			PartitionFormat: "year=%Y/month=%m/day=%d/hour=%H/minute=%M",
		},
	}
}

// Validate refuses what the published exporter refuses, and what this one can't do.
func (c *Config) Validate() error {
	up := c.Uploader
	var found []error
	if up.Region == "" {
		found = append(found, errors.New("region is required"))
	}
	if up.Bucket == "" {
		found = append(found, errors.New("s3_bucket is required"))
	}
	if c.Marshaler != "otlp_json" {
		found = append(found, fmt.Errorf("marshaler %q: only otlp_json here", c.Marshaler))
	}
	if up.Compression.IsCompressed() && up.Compression != configcompression.TypeGzip {
		found = append(found, fmt.Errorf("compression %q: only gzip here", up.Compression))
	}
	if up.UniqueKeyFuncName != "uuidv7" {
		found = append(found, fmt.Errorf("unique_key_func_name %q: only uuidv7 here", up.UniqueKeyFuncName))
	}
	if strings.Contains(directives.Replace(up.PartitionFormat), "%") {
		found = append(found, fmt.Errorf("s3_partition_format %q: only %%Y, %%m, %%d, %%H and %%M here", up.PartitionFormat))
	}
	if _, err := up.zone(); err != nil {
		found = append(found, fmt.Errorf("s3_partition_timezone: %w", err))
	}
	return errors.Join(found...)
}

// zone is that of the partitions: the collector's own unless one is named, as in the published exporter.
func (u Uploader) zone() (*time.Location, error) {
	if u.PartitionTimezone == "" {
		return time.Local, nil
	}
	return time.LoadLocation(u.PartitionTimezone)
}

// partition formats each part of the path on its own: a name such as "hour=" is no layout.
func (u Uploader) partition(at time.Time) string {
	var path strings.Builder
	rest := u.PartitionFormat
	for {
		before, after, found := strings.Cut(rest, "%")
		path.WriteString(before)
		if !found {
			return path.String()
		}
		path.WriteString(at.Format(directives.Replace("%" + after[:1])))
		rest = after[1:]
	}
}
