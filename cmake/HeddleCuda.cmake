# Whether the CUDA backend is built, and for which GPUs.
#
#   heddle_builds_cuda         yes or no; if no, `heddle_cuda_reason` says why
#   heddle_cuda_architectures  as CMake names them

set(HEDDLE_CUDA_ARCHITECTURES "" CACHE STRING
  "GPU architectures to compile for, as CMake names them; empty: those of this machine's GPUs, else all that nvcc has")

# Scripts written for ggml say it this way.
if(DEFINED GGML_CUDA AND HEDDLE_CUDA STREQUAL "AUTO")
  set(HEDDLE_CUDA ${GGML_CUDA})
endif()
if(DEFINED CMAKE_CUDA_ARCHITECTURES AND "${HEDDLE_CUDA_ARCHITECTURES}" STREQUAL "")
  set(HEDDLE_CUDA_ARCHITECTURES ${CMAKE_CUDA_ARCHITECTURES})
endif()

find_program(HEDDLE_NVCC nvcc HINTS ENV CUDACXX ENV CUDA_PATH PATH_SUFFIXES bin PATHS /usr/local/cuda/bin)
mark_as_advanced(HEDDLE_NVCC)

# One line for each GPU, such as "9.0"; nothing where there is no driver.
set(capabilities "")
find_program(HEDDLE_NVIDIA_SMI nvidia-smi)
mark_as_advanced(HEDDLE_NVIDIA_SMI)
if(HEDDLE_NVIDIA_SMI)
  execute_process(COMMAND ${HEDDLE_NVIDIA_SMI} --query-gpu=compute_cap --format=csv,noheader
                  OUTPUT_VARIABLE capabilities OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET
                  RESULT_VARIABLE failed)
  if(failed)
    set(capabilities "")
  endif()
endif()
string(REGEX MATCHALL "[0-9]+\\.[0-9]+" capabilities "${capabilities}")

set(heddle_builds_cuda OFF)
if(HEDDLE_CUDA STREQUAL "AUTO")
  if(NOT HEDDLE_NVCC)
    set(heddle_cuda_reason "there is no nvcc")
  elseif("${capabilities}" STREQUAL "")
    set(heddle_cuda_reason "there is no GPU (HEDDLE_CUDA=ON builds it all the same)")
  else()
    set(heddle_builds_cuda ON)
  endif()
else()
  set(heddle_builds_cuda ON)
endif()

set(heddle_cuda_architectures "${HEDDLE_CUDA_ARCHITECTURES}")
if(heddle_builds_cuda AND "${heddle_cuda_architectures}" STREQUAL "")
  # Hopper has instructions that only code for that very architecture may use.
  foreach(capability ${capabilities})
    string(REPLACE "." "" number ${capability})
    string(REGEX REPLACE "^90$" "90a" number ${number})
    list(APPEND heddle_cuda_architectures ${number})
  endforeach()
  list(REMOVE_DUPLICATES heddle_cuda_architectures)
endif()
if(heddle_builds_cuda AND "${heddle_cuda_architectures}" STREQUAL "")
  execute_process(COMMAND ${HEDDLE_NVCC} --list-gpu-arch OUTPUT_VARIABLE known ERROR_QUIET)
  foreach(number 80 86 89 90 100 120)
    if(known MATCHES "compute_${number}\n")
      string(REGEX REPLACE "^90$" "90a" number ${number})
      list(APPEND heddle_cuda_architectures ${number}-real)
    endif()
  endforeach()
  # What is newer than all of them compiles the last one's intermediate code when it loads.
  string(REGEX REPLACE "-real$" "" heddle_cuda_architectures "${heddle_cuda_architectures}")
endif()
